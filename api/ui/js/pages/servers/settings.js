//! Settings of the cluster that operators change: the scheduler and autopilot, each written with compare-and-set.

import { useGet, write } from '../../api.js';
import { html, useEffect, useMemo, useState } from '../../lib.js';
import { Action, Card, Failed } from '../../parts/basics.js';
import { Check, Choice, Text } from '../../parts/form.js';
import { versionOf } from '../../store.js';

/** @typedef {Record<string, any>} Row */

/**
 * An object that is edited: what the server has, what is typed, and whether someone else has changed it since.
 * @param {Row | null} theirs
 */
function useEdited(theirs) {
  const [mine, setMine] = useState(/** @type {Row | null} */ (null));
  const [dirty, setDirty] = useState(false);
  useEffect(() => {
    if (theirs !== null && !dirty) setMine(theirs);
  }, [theirs?.ModifyIndex]);
  const set = (/** @type {Row} */ by) => {
    setMine((/** @type {any} */ old) => ({ ...old, ...by }));
    setDirty(true);
  };
  const drop = () => {
    setMine(theirs);
    setDirty(false);
  };
  const isNewer = dirty && theirs !== null && mine !== null && theirs.ModifyIndex > mine.ModifyIndex;
  return { mine, dirty, set, drop, saved: () => setDirty(false), isNewer };
}

/** @param {any} answer  of a compare-and-set */
function refuse(answer) {
  if (answer === false || answer?.Updated === false) throw new Error('someone else has changed it: nothing was written');
}

/** @param {{title: string, edited: ReturnType<typeof useEdited>, save: () => Promise<any>, children: any}} props */
function Editor({ title, edited, save, children }) {
  return html`<${Card} title=${title} aside=${html`${edited.dirty ? html`<button type="button" onClick=${edited.drop}>
      Take back</button>` : null}<${Action} kind="main" disabled=${!edited.dirty} run=${save}
        done=${edited.saved}>Save<//>`}>
    ${edited.isNewer ? html`<div class="body"><div class="note warn" role="alert">Someone else has changed this after
      the edit began. Take back to see it.</div></div>` : null}
    <div class="body form">${children}</div><//>`;
}

export function Scheduler() {
  const got = useGet('/v1/operator/scheduler/configuration', useMemo(() => versionOf('SchedulerConfiguration'), []));
  const edited = useEdited(got.data?.SchedulerConfig ?? null);
  const { mine, set } = edited;
  if (mine === null) return html`<${Failed} error=${got.error} />`;
  const preempts = mine.PreemptionConfig ?? {};
  const save = async () => refuse(await write('PUT', `/v1/operator/scheduler/configuration?cas=${mine.ModifyIndex}`, mine));
  const kinds = /** @type {[string, string][]} */ ([['SystemSchedulerEnabled', 'system jobs'],
    ['SysBatchSchedulerEnabled', 'sysbatch jobs'], ['ServiceSchedulerEnabled', 'service jobs'],
    ['BatchSchedulerEnabled', 'batch jobs']]);
  return html`<${Editor} title="Scheduler" edited=${edited} save=${save}>
    <${Choice} label="Algorithm" of=${['binpack', 'spread']} value=${mine.SchedulerAlgorithm}
      set=${(/** @type {string} */ to) => set({ SchedulerAlgorithm: to })} />
    <${Check} label="Memory oversubscription" value=${mine.MemoryOversubscriptionEnabled}
      set=${(/** @type {boolean} */ to) => set({ MemoryOversubscriptionEnabled: to })} />
    <${Check} label="Refuse registrations of jobs, except with a management token" value=${mine.RejectJobRegistration}
      set=${(/** @type {boolean} */ to) => set({ RejectJobRegistration: to })} />
    <${Check} label="Pause the eval broker: nothing is placed" value=${mine.PauseEvalBroker}
      set=${(/** @type {boolean} */ to) => set({ PauseEvalBroker: to })} />
    <fieldset><legend>These may preempt jobs of lower priority</legend><div class="several">
      ${kinds.map(([field, name]) => html`<${Check} key=${field} label=${name} value=${preempts[field] ?? false}
        set=${(/** @type {boolean} */ to) => set({ PreemptionConfig: { ...preempts, [field]: to } })} />`)}</div></fieldset><//>`;
}

export function Autopilot() {
  const got = useGet('/v1/operator/autopilot/configuration', useMemo(() => versionOf('AutopilotConfiguration'), []));
  const edited = useEdited(got.data);
  const { mine, set } = edited;
  if (mine === null) return html`<${Failed} error=${got.error} />`;
  const save = async () => refuse(await write('PUT', `/v1/operator/autopilot/configuration?cas=${mine.ModifyIndex}`, mine));
  const text = (/** @type {string} */ field, /** @type {string} */ label, /** @type {boolean} */ isNumber) => html`<${Text}
    label=${label} type=${isNumber ? 'number' : 'text'} value=${mine[field]} set=${(/** @type {string} */ to) =>
      set({ [field]: isNumber ? Number(to) : to })} />`;
  return html`<${Editor} title="Autopilot" edited=${edited} save=${save}>
    <${Check} label="Remove dead servers when new ones join" value=${mine.CleanupDeadServers}
      set=${(/** @type {boolean} */ to) => set({ CleanupDeadServers: to })} />
    ${text('LastContactThreshold', 'A server is healthy that heard from the leader within', false)}
    ${text('MaxTrailingLogs', 'and is at most this many entries behind', true)}
    ${text('ServerStabilizationTime', 'A new server votes once it was healthy for', false)}
    ${text('MinQuorum', 'Never remove servers below this number', true)}<//>`;
}
