//! List of the newest events that arrived, each with the object that it is about.

import { html, useSignal } from '../lib.js';
import { Link, paths } from '../router.js';
import { feed } from '../store.js';
import { short } from '../words.js';
import { Empty } from './basics.js';

/** Page of an event's object, or null. @param {{topic: string, key: string, namespace: string}} event */
export function pageOf({ topic, key, namespace }) {
  if (topic === 'Job') return paths.job({ ID: key, Namespace: namespace });
  if (topic === 'Allocation') return paths.alloc(key);
  if (topic === 'Node') return paths.node(key);
  if (topic === 'Evaluation') return paths.evaluation(key);
  if (topic === 'Deployment') return paths.deployment(key);
  return null;
}

/** What an event's row is and does, in a few words. @param {{topic: string, payload: any, key: string}} event */
export function eventWords({ topic, payload, key }) {
  const row = payload?.[topic] ?? {};
  const gone = payload?.Deleted ? ' deleted' : '';
  if (topic === 'Allocation') return `${row.Name ?? short(key)} ${row.ClientStatus ?? ''}${gone}`;
  if (topic === 'Evaluation') return `${row.JobID ?? short(key)} evaluation ${row.Status ?? ''}${gone}`;
  if (topic === 'Deployment') return `${row.JobID ?? short(key)} deployment ${row.Status ?? ''}${gone}`;
  if (topic === 'Node') return `${row.Name ?? short(key)} ${row.Status ?? ''}${gone}`;
  if (topic === 'Job') return `${key} ${row.Stop ? 'stopped' : row.Status ?? ''}${gone}`;
  return `${topic} ${short(key)}${gone}`;
}

/** @param {{count: number}} props */
export function FeedList({ count }) {
  const events = useSignal(feed).slice(0, count);
  if (events.length === 0) return html`<${Empty}>No event since this page was opened.<//>`;
  return html`<ul class="feed">${events.map((event) => {
    const to = pageOf(event);
    const words = eventWords(event);
    return html`<li class="fresh" key=${`${event.index}/${event.topic}/${event.key}`}>
      <span class="index">${event.index}</span>
      <span class="what">${to === null ? words : html`<${Link} to=${to}>${words}<//>`}</span>
      <small class="dim">${event.type}</small></li>`;
  })}</ul>`;
}
