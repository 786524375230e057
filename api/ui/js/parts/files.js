//! Files of an allocation: folders and the beginning of a file, as text.

import { at, request, useGet } from '../api.js';
import { html, useEffect, useSignal, useState } from '../lib.js';
import { size } from '../words.js';
import { Action, Card, Empty, Failed, Time } from './basics.js';

/** Bytes of a file that are shown. */
const SHOWN_BYTES = 200_000;

/** @param {{alloc: Record<string, any>}} props */
export function Files({ alloc }) {
  const [folder, setFolder] = useState('/');
  const [file, setFile] = useState('');
  const [content, setContent] = useState('');
  const past = useSignal(at) !== null;
  const space = `namespace=${encodeURIComponent(alloc.Namespace)}`;
  const list = useGet(past ? null
    : `/v1/client/fs/ls/${alloc.ID}?path=${encodeURIComponent(folder)}&${space}`, undefined, true);
  const download = async (/** @type {string} */ path) => {
    const response = await request(`/v1/client/fs/cat/${alloc.ID}?path=${encodeURIComponent(path)}&${space}`);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    link.download = path.slice(path.lastIndexOf('/') + 1);
    link.click();
    URL.revokeObjectURL(link.href);
  };
  useEffect(() => {
    if (file === '') return undefined;
    const abort = new AbortController();
    setContent('');
    request(`/v1/client/fs/readat/${alloc.ID}?path=${encodeURIComponent(file)}&offset=0&limit=${SHOWN_BYTES}&${space}`,
      { signal: abort.signal }).then((response) => response.text()).then(setContent, (error) => {
        if (!abort.signal.aborted) setContent(error.message);
      });
    return () => abort.abort();
  }, [file]);
  if (past) return html`<${Card} title="Files"><${Empty}>Files are the node's; they have no past states.<//><//>`;
  const up = folder.replace(/[^/]+\/$/, '');
  const rows = [...(list.data ?? [])].sort((a, b) => Number(b.IsDir) - Number(a.IsDir) || a.Name.localeCompare(b.Name));
  return html`<${Failed} error=${list.error} /><div class="split"><${Card} title=${html`<span class="mono">
    ${folder}</span>`}><ul class="tree">
    ${folder === '/' ? null : html`<li><button type="button" onClick=${() => setFolder(up)}>‹ up</button></li>`}
    ${rows.map((row) => html`<li key=${row.Name}><button type="button" class="mono"
      onClick=${() => (row.IsDir ? setFolder(`${folder}${row.Name}/`) : setFile(folder + row.Name))}>
      ${row.Name}${row.IsDir ? '/' : html` <small class="dim">${size(row.Size)} · <${Time}
        time=${row.ModTime} /></small>`}</button></li>`)}
    </ul><//><${Card} title=${file === '' ? 'No file is chosen' : html`<span class="mono">${file}</span>`}
      aside=${file === '' ? null : html`<${Action} run=${() => download(file)}>Download<//>`}><div class="body">
      ${content.length >= SHOWN_BYTES ? html`<p class="dim">Only the beginning is shown.</p>` : null}
      <pre class="code" tabindex="0" role="region" aria-label="Content of the file">${content}</pre></div><//></div>`;
}
