//! Snapshot archives: saved to a file, checked, and restored, each with its progress.

import { ApiError, at, headers, request } from '../../api.js';
import { html, useSignal, useState } from '../../lib.js';
import { Action, Card } from '../../parts/basics.js';
import { newest } from '../../store.js';
import { counted, size } from '../../words.js';

/** @typedef {Record<string, any>} Row */

/** Reads an archive and offers it as a file. @param {(words: string) => void} say */
async function save(say) {
  const response = await request('/v1/operator/snapshot');
  const reader = response.body?.getReader();
  /** @type {Uint8Array[]} */
  const pieces = [];
  let bytes = 0;
  for (;;) {
    const piece = await reader?.read();
    if (piece === undefined || piece.done) break;
    pieces.push(piece.value);
    bytes += piece.value.length;
    say(`${size(bytes)} received`);
  }
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(/** @type {any} */ (pieces), { type: 'application/gzip' }));
  link.download = `songline-${newest.value}.snap`;
  link.click();
  URL.revokeObjectURL(link.href);
  say(`${size(bytes)} saved as ${link.download}`);
}

/**
 * Sends an archive. A request that tells how much it has sent is not a `fetch`.
 * @param {File} file
 * @param {boolean} isCheck
 * @param {(words: string) => void} say
 * @returns {Promise<Row>}
 */
function send(file, isCheck, say) {
  return new Promise((done, failed) => {
    const sending = new XMLHttpRequest();
    sending.open('PUT', `/v1/operator/snapshot${isCheck ? '?dry_run=true' : ''}`);
    for (const [name, value] of Object.entries(headers())) sending.setRequestHeader(name, value);
    sending.upload.onprogress = (event) => say(`${size(event.loaded)} of ${size(file.size)} sent`);
    sending.upload.onload = () => say(isCheck ? 'The server checks the archive…' : 'The server restores the archive…');
    sending.onload = () => {
      const text = sending.responseText;
      if (sending.status >= 300) failed(new ApiError(sending.status, text.trim() || sending.statusText));
      else done(text === '' ? {} : JSON.parse(text));
    };
    sending.onerror = () => failed(new ApiError(0, 'the connection was lost'));
    sending.send(file);
  });
}

export function Snapshot() {
  const past = useSignal(at) !== null;
  const [words, say] = useState('');
  const [file, setFile] = useState(/** @type {File | null} */ (null));
  const [report, setReport] = useState(/** @type {Row | null} */ (null));
  const choose = (/** @type {any} */ event) => {
    setFile(event.target.files[0] ?? null);
    setReport(null);
    say('');
  };
  const chosen = /** @type {File} */ (file);
  const rows = (report?.Tables ?? []).filter((/** @type {Row} */ table) => table.Rows > 0);
  return html`<${Card} title="Snapshot" aside=${html`<${Action} run=${() => save(say)}>Save a snapshot<//>`}>
    <div class="body form"><p class="dim" role="status">${words}</p>
    <label>Archive to restore<input type="file" disabled=${past} onChange=${choose} /></label>
    <div class="tools"><${Action} disabled=${file === null} run=${() => send(chosen, true, say)}
        done=${(/** @type {Row} */ answer) => { setReport(answer); say('The archive is whole.'); }}>Check it<//>
      <${Action} kind="main" disabled=${report === null} confirm="Replace the whole state"
        run=${() => send(chosen, false, say)}
        done=${() => { say('Restored.'); setReport(null); }}>Restore it<//></div>
    ${report === null ? null : html`<p>It was made at index ${report.Index} and holds ${rows.map((/** @type {Row} */ table) =>
      counted(table.Rows, 'row').replace('row', `${table.Name} row`)).join(', ')}. A restore replaces everything that the
      cluster knows now.</p>`}</div><//>`;
}
