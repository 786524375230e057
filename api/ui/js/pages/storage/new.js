//! Form of a new volume: made by its plugin, or registered because it is there already.

import { useGet, write } from '../../api.js';
import { html, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed, Head } from '../../parts/basics.js';
import { Choice, Text } from '../../parts/form.js';
import { Link, go } from '../../router.js';
import { namespace, useRows, versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

const ACCESS = ['single-node-writer', 'single-node-reader-only', 'multi-node-reader-only', 'multi-node-single-writer',
  'multi-node-multi-writer'];
const ATTACHMENT = ['file-system', 'block-device'];
const GIB = 2 ** 30;

export function NewVolume() {
  const plugins = useGet('/v1/plugins?type=csi', useMemo(() => versionOf('CSIPlugin'), []), true);
  const names = (plugins.data ?? []).map((/** @type {Row} */ plugin) => plugin.ID);
  const spaces = [...useRows('Namespace').keys()].sort();
  const [id, setId] = useState('');
  const [space, setSpace] = useState(namespace.value === '*' ? 'default' : namespace.value);
  const [chosen, setPlugin] = useState('');
  const [external, setExternal] = useState('');
  const [access, setAccess] = useState(ACCESS[0]);
  const [attachment, setAttachment] = useState(ATTACHMENT[0]);
  const [least, setLeast] = useState('');
  const [most, setMost] = useState('');
  const plugin = chosen === '' ? names[0] ?? '' : chosen;
  const isThere = external !== '';
  const bytes = (/** @type {string} */ gib) => Math.round(Number(gib) * GIB);
  const run = () => {
    const volume = { ID: id, Name: id, Namespace: space, PluginID: plugin,
      RequestedCapabilities: [{ AccessMode: access, AttachmentMode: attachment }],
      ...(isThere ? { ExternalID: external } : { RequestedCapacityMin: bytes(least), RequestedCapacityMax: bytes(most) }) };
    return write('PUT', `/v1/volume/csi/${encodeURIComponent(id)}${isThere ? '' : '/create'}?namespace=${
      encodeURIComponent(space)}`, { Volumes: [volume] });
  };
  return html`<${Head} title="New volume" over=${html`<${Link} to="/storage">Volumes<//>`}
      aside=${html`<${Action} kind="main" disabled=${id === '' || plugin === ''} run=${run}
        done=${() => go(`/storage/volumes/${encodeURIComponent(id)}/${encodeURIComponent(space)}`)}>
        ${isThere ? 'Register' : 'Create'}<//>`} />
    <${Failed} error=${plugins.error} />
    ${plugins.data && names.length === 0 ? html`<div class="note warn">No plugin runs: a volume needs one.</div>` : null}
    <${Card} title="Volume"><div class="body form">
      <${Text} label="Id" mono value=${id} set=${setId} />
      <${Choice} label="Namespace" of=${spaces.includes(space) ? spaces : [space, ...spaces]} value=${space}
        set=${setSpace} />
      <${Choice} label="Plugin" of=${names} value=${plugin} set=${setPlugin} />
      <${Choice} label="Access" of=${ACCESS} value=${access} set=${setAccess} />
      <${Choice} label="Attachment" of=${ATTACHMENT} value=${attachment} set=${setAttachment} />
      <${Text} label="At least, GiB" type="number" min="0" value=${least} set=${setLeast} disabled=${isThere} />
      <${Text} label="At most, GiB" type="number" min="0" value=${most} set=${setMost} disabled=${isThere} />
      <${Text} label="External id" mono value=${external} set=${setExternal}
        hint="Of a volume that the storage has already: it is registered instead of made." /></div><//>`;
}
