//! The log entry of an event: who wrote it, what led to it, and what it led to in turn.

import { request } from '../api.js';
import { html, useEffect, useState } from '../lib.js';
import { actorWords } from '../words.js';
import { Card, Empty, Status, Time } from './basics.js';
import { ToIndex } from './history.js';

/** @typedef {Record<string, any>} Row */

/** Entries that are looked at for causes, at most. */
const DEEP_MAX = 12;
/** Effects that are shown. */
const EFFECTS_MAX = 20;
/** Entries after an event among which its effects are looked for. */
const LOOKED_MAX = 1000;

/** @param {string} query @param {AbortSignal} abort @returns {Promise<Row[]>} */
const audit = async (query, abort) => (await request(`/v1/audit?${query}`, { signal: abort })).json();

/** @param {number} index @param {AbortSignal} abort @returns {Promise<Row[]>}  the entry, its cause, the cause's cause, .. */
async function chain(index, abort) {
  /** @type {Row[]} */
  const found = [];
  let next = index;
  while (next > 0 && found.length < DEEP_MAX) {
    const [entry] = await audit(`from_index=${next}&to_index=${next}`, abort);
    if (entry === undefined) break;
    found.push(entry);
    next = entry.Cause && entry.Cause.Index < next ? entry.Cause.Index : 0;
  }
  return found;
}

/** @param {{entry: Row, mark?: string}} props */
function Line({ entry, mark = '' }) {
  return html`<li class=${mark}><div class="line"><strong>${entry.Command}</strong> by ${actorWords(entry.Actor)}
    ${entry.Refused ? html` <${Status} value="denied" /> ${entry.Result}` : null}</div>
    <div class="meta"><${ToIndex} index=${entry.Index} /><${Time} time=${entry.Time} ago=${false} /></div></li>`;
}

/** @param {{index: number}} props */
export function Entry({ index }) {
  const [state, set] = useState(/** @type {{causes: Row[], effects: Row[], denied: boolean}} */ ({ causes: [],
    effects: [], denied: false }));
  useEffect(() => {
    const abort = new AbortController();
    set({ causes: [], effects: [], denied: false });
    Promise.all([chain(index, abort.signal),
      audit(`from_index=${index + 1}&order=oldest&per_page=${LOOKED_MAX}`, abort.signal)])
      .then(([causes, after]) => set({ causes, denied: false,
        effects: after.filter((entry) => entry.Cause?.Index === index).slice(0, EFFECTS_MAX) }),
        () => { if (!abort.signal.aborted) set({ causes: [], effects: [], denied: true }); });
    return () => abort.abort();
  }, [index]);
  if (state.denied) return html`<${Empty}>Its log entry is shown to management tokens.<//>`;
  const [own, ...before] = state.causes;
  if (own === undefined) return null;
  return html`<${Card} title="Cause and effects"><ol class="chain">
    ${before.reverse().map((entry) => html`<${Line} key=${entry.Index} entry=${entry} mark="job" />`)}
    <${Line} key=${own.Index} entry=${own} mark="allocation" />
    ${state.effects.map((entry) => html`<${Line} key=${entry.Index} entry=${entry} mark="evaluation" />`)}</ol>
    ${state.effects.length === 0 ? html`<${Empty}>None of the next ${LOOKED_MAX.toLocaleString('en')} entries names it as its cause.<//>` : null}<//>`;
}
