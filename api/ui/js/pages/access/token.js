//! Form of a new token. Its secret is shown once, after it was written, and is kept nowhere by the page.

import { useGet, write } from '../../api.js';
import { html, useMemo, useState } from '../../lib.js';
import { Action, Card } from '../../parts/basics.js';
import { Choice, Several, Text } from '../../parts/form.js';
import { versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

/** @param {{close: () => void}} props */
export function NewToken({ close }) {
  const policies = useGet('/v1/acl/policies', useMemo(() => versionOf('ACLPolicy'), []), true);
  const roles = useGet('/v1/acl/roles', useMemo(() => versionOf('ACLRole'), []), true);
  const [name, setName] = useState('');
  const [type, setType] = useState('client');
  const [chosen, choose] = useState(/** @type {string[]} */ ([]));
  const [chosenRoles, chooseRoles] = useState(/** @type {string[]} */ ([]));
  const [ttl, setTtl] = useState('');
  const [made, setMade] = useState(/** @type {Row | null} */ (null));
  const isClient = type === 'client';
  const lacks = isClient && chosen.length === 0 && chosenRoles.length === 0;
  const run = () => write('POST', '/v1/acl/token', { Name: name, Type: type, Policies: isClient ? chosen : [],
    Roles: isClient ? chosenRoles.map((role) => ({ Name: role })) : [], ...(ttl === '' ? {} : { ExpirationTTL: ttl }) });
  const names = (/** @type {any} */ rows) => (rows ?? []).map((/** @type {Row} */ row) => row.Name);
  if (made !== null) {
    return html`<${Card} title=${`Token ${made.Name}`}
      aside=${html`<button type="button" onClick=${close}>Done</button>`}>
      <div class="body form"><p role="status">The token was written. Its secret is shown now, and never again.</p>
      <label>Secret id<input class="mono" readonly value=${made.SecretID} onFocus=${(/** @type {any} */ e) =>
        e.target.select()} /></label>
      <label>Accessor id<input class="mono" readonly value=${made.AccessorID} /></label>
      <div><button type="button" onClick=${() => navigator.clipboard?.writeText(made.SecretID)}>Copy the secret</button>
      </div></div><//>`;
  }
  return html`<${Card} title="New token" aside=${html`<button type="button" onClick=${close}>Cancel</button>
      <${Action} kind="main" run=${run} done=${setMade} disabled=${lacks}>Create<//>`}><div class="body form">
    <${Text} label="Name" value=${name} set=${setName} />
    <${Choice} label="Type" value=${type} set=${setType} of=${['client', 'management']} />
    ${isClient ? html`<${Several} label="Policies" of=${names(policies.data)} chosen=${chosen} set=${choose} />
      <${Several} label="Roles" of=${names(roles.data)} chosen=${chosenRoles} set=${chooseRoles} />`
      : html`<p class="note warn">A management token may do everything.</p>`}
    <${Text} label="Lifetime" value=${ttl} set=${setTtl} hint="Such as 8h. Without one the token does not expire." />
    </div><//>`;
}
