// What the page promises, each as one story against a real agent: rows as the API has them, without a reload; the past;
// reconnection; rights; text that stays text; no finding of axe. They are told in this order: later ones use earlier jobs.

import { access } from './stories/access.mjs';
import { cluster } from './stories/cluster.mjs';
import { sinks } from './stories/sinks.mjs';
import { begin, end } from './stories/whole.mjs';
import { work } from './stories/work.mjs';

export const open = { ...begin, ...work, ...cluster, ...sinks, ...end };
export const acl = access;
