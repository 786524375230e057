//! Live logs of a task, with search. Lines are text: what a task writes is never markup.

import { ApiError, at, request } from '../api.js';
import { html, useEffect, useRef, useSignal, useState } from '../lib.js';
import { Card, Empty, Failed } from './basics.js';

/** Longest text that stays on the page, in characters; the beginning falls out. */
const TEXT_MAX = 400_000;
/** Bytes of the past that a log begins with. */
const BEGIN_BYTES = 50_000;

/** @param {{line: string, find: string}} props */
function Line({ line, find }) {
  if (find === '') return html`<div>${line || ' '}</div>`;
  const parts = line.split(find);
  return html`<div>${parts.map((part, i) => (i === 0 ? part : html`<mark>${find}</mark>${part}`))}</div>`;
}

/** @param {{alloc: Record<string, any>}} props */
export function Logs({ alloc }) {
  const tasks = Object.keys(alloc.TaskStates ?? {});
  const [task, setTask] = useState(tasks[0] ?? '');
  const [kind, setKind] = useState('stdout');
  const [text, setText] = useState('');
  const [error, setError] = useState(/** @type {ApiError | null} */ (null));
  const [find, setFind] = useState('');
  const [following, setFollowing] = useState(true);
  const past = useSignal(at) !== null;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (task === '' && tasks.length > 0) setTask(tasks[0]);
  }, [tasks.length]);
  useEffect(() => {
    if (task === '' || past) return undefined;
    const abort = new AbortController();
    setText('');
    setError(null);
    const read = async () => {
      try {
        const response = await request(`/v1/client/fs/logs/${alloc.ID}?task=${encodeURIComponent(task)}&type=${kind}`
          + `&plain=true&follow=true&origin=end&offset=${BEGIN_BYTES}&namespace=${encodeURIComponent(alloc.Namespace)}`,
        { signal: abort.signal });
        const reader = response.body?.getReader();
        const decoder = new TextDecoder();
        for (;;) {
          const piece = await reader?.read();
          if (piece === undefined || piece.done) return;
          const added = decoder.decode(piece.value, { stream: true });
          setText((/** @type {string} */ old) => (old + added).slice(-TEXT_MAX));
        }
      } catch (caught) {
        if (caught instanceof ApiError) setError(caught);
      }
    };
    void read();
    return () => abort.abort();
  }, [alloc.ID, task, kind, past]);
  useEffect(() => {
    if (following && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, following, find]);
  if (past) return html`<${Card} title="Logs"><${Empty}>Logs are files of the node; they have no past states.<//><//>`;
  const lines = text.split('\n').filter((line) => find === '' || line.includes(find));
  return html`<div class="tools"><select aria-label="Task" value=${task} onChange=${(/** @type {any} */ e) =>
    setTask(e.target.value)}>
      ${tasks.map((name) => html`<option value=${name}>${name}</option>`)}</select>
    ${['stdout', 'stderr'].map((name) => html`<button type="button" aria-pressed=${kind === name}
      onClick=${() => setKind(name)}>${name}</button>`)}
    <input class="grow" type="search" aria-label="Search the log" placeholder="Lines with this text" value=${find}
      onInput=${(/** @type {any} */ e) => setFind(e.target.value)} />
    <button type="button" aria-pressed=${following} onClick=${() => setFollowing(!following)}>Follow</button></div>
    <${Failed} error=${error} />
    <div class="code logs" ref=${box} tabindex="0" role="log" aria-label=${`${kind} of ${task}`}>
      ${text === '' ? html`<span class="dim">Nothing written yet.</span>`
        : lines.slice(-5000).map((line) => html`<${Line} line=${line} find=${find} />`)}</div>`;
}
