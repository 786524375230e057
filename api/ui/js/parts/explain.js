//! Explanation of an allocation: why it is where it is, as a chain from the actor to the present.

import { useGet } from '../api.js';
import { html, useMemo } from '../lib.js';
import { Link, paths } from '../router.js';
import { versionOf } from '../store.js';
import { actorWords } from '../words.js';
import { Card, Empty, Failed, Time } from './basics.js';
import { ToIndex } from './history.js';

/** @typedef {Record<string, any>} Row */

/** Page of a step's object. @param {Row} step @param {string} namespace */
function pageOf(step, namespace) {
  if (step.About === 'job') return paths.job({ ID: step.ID, Namespace: namespace });
  if (step.About === 'evaluation' || step.About === 'plan') return paths.evaluation(step.ID);
  if (step.About === 'node') return paths.node(step.ID);
  if (step.About === 'allocation') return paths.alloc(step.ID);
  if (step.About === 'deployment') return paths.deployment(step.ID);
  return null;
}

/** @param {{alloc: Row, brief?: boolean}} props */
export function Explain({ alloc, brief = false }) {
  const got = useGet(`/v1/explain/allocation/${alloc.ID}?namespace=${encodeURIComponent(alloc.Namespace)}`,
    useMemo(() => versionOf('Allocation'), []));
  const steps = /** @type {Row[]} */ (got.data?.Steps ?? []);
  if (got.error && got.data === null) return html`<${Failed} error=${got.error} />`;
  const more = brief ? html`<${Link} to=${paths.alloc(alloc.ID, 'explain')}>The whole chain: ${steps.length} steps<//>`
    : null;
  return html`<${Card} title="Why" aside=${more}><p class="answer">${got.data?.Summary ?? 'Reading…'}</p>
    ${brief ? null : html`${steps.length === 0 && !got.loading ? html`<${Empty}>Its entries are no longer kept.<//>`
      : null}
    <ol class="chain">${steps.map((step, i) => {
      const to = pageOf(step, alloc.Namespace);
      return html`<li key=${i} class=${step.About}><div class="line">${step.Text}</div>
        <div class="meta"><${ToIndex} index=${step.Index} /><${Time} time=${step.Time} ago=${false} />
          ${step.Actor ? html`<span>by ${actorWords(step.Actor)}</span>` : null}
          ${step.CausedBy ? html`<span>because of <${ToIndex} index=${step.CausedBy} /></span>` : null}
          ${to && step.ID !== alloc.ID ? html`<${Link} to=${to}>${step.About}<//>` : null}</div></li>`;
    })}</ol>`}<//>`;
}
