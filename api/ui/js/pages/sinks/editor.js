//! Form of an event sink: what it delivers, and to whom. Secrets that the server has are shown as `redacted`, and kept.

import { write } from '../../api.js';
import { html, useState } from '../../lib.js';
import { Action, Card, Head } from '../../parts/basics.js';
import { Area, Check, Choice, Newer, Text, useDraft } from '../../parts/form.js';
import { go } from '../../router.js';
import { useRows } from '../../store.js';

/** @typedef {Record<string, any>} Row */

/** @param {string} name */
export const pathOf = (name) => `/v1/event-sink/${encodeURIComponent(name)}`;

/** What the address of each type is. @type {Record<string, string>} */
const ADDRESSES = {
  webhook: 'https://receiver.example/events', file: 'Name of a file in the servers\' event_sink_dir',
  nats: 'nats://HOST:PORT or tls://HOST:PORT', kafka: 'kafka://HOST:PORT,HOST:PORT or kafka+tls://HOST:PORT',
};
const KEYS = ['', 'namespace', 'job', 'object'];

const BEGIN = {
  type: 'webhook', address: '', subject: '', key: '', namespace: 'default', topics: '', filter: '', full: false, secret: '',
  headers: '', batch: '',
};

/** Lines of text that have something in them. @param {string} text */
const linesOf = (text) => text.split('\n').map((line) => line.trim()).filter((line) => line !== '');
/** What is before the first colon of a line, and what is after it. @param {string} line */
function halves(line) {
  const colon = line.indexOf(':');
  return colon < 0 ? [line, ''] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
}

/** Topics with their keys, one a line. @param {Row} topics */
const topicLines = (topics) => Object.entries(topics).flatMap(([topic, keys]) => (
  keys.length === 0 ? [topic] : keys.map((/** @type {string} */ key) => `${topic}:${key}`))).join('\n');

/** @param {string} text */
function topicsOf(text) {
  /** @type {Record<string, string[]>} */
  const topics = {};
  for (const [topic, key] of linesOf(text).map(halves)) topics[topic] = [...(topics[topic] ?? []), ...(key === '' ? [] : [key])];
  return topics;
}

/** Fields of the form from a sink of the API. @param {Row} sink @returns {typeof BEGIN} */
const fieldsOf = (sink) => ({
  type: sink.Type, address: sink.Address, subject: sink.Subject, key: sink.PartitionKey, namespace: sink.Namespace,
  topics: topicLines(sink.Topics), filter: sink.Filter, full: sink.Full, secret: sink.Secret,
  headers: Object.entries(sink.Headers).map(([name, value]) => `${name}: ${value}`).join('\n'), batch: String(sink.BatchSize),
});

/** A sink of the API from the fields of the form. What its type has no use for is left out. @param {typeof BEGIN} fields */
function sinkOf(fields) {
  const { type } = fields;
  const isBus = type === 'nats' || type === 'kafka';
  return { Type: type, Address: fields.address, Subject: isBus ? fields.subject : '', PartitionKey: type === 'kafka' ? fields.key : '',
    Namespace: fields.namespace, Topics: topicsOf(fields.topics), Filter: fields.filter, Full: fields.full,
    Secret: type === 'file' ? '' : fields.secret, BatchSize: Number(fields.batch),
    Headers: type === 'webhook' ? Object.fromEntries(linesOf(fields.headers).map(halves)) : {} };
}

/** @param {{sink: Row | null, over: any, status?: any, remove?: any, children?: any}} props  `sink` is null for a new one */
export function Editor({ sink, over, status, remove, children }) {
  const [typed, setTyped] = useState('');
  const [position, setPosition] = useState('');
  const draft = useDraft(BEGIN, sink === null ? null : fieldsOf(sink));
  const { mine } = draft;
  const name = sink === null ? typed : sink.ID;
  const spaces = [...new Set(['*', mine.namespace, ...useRows('Namespace').keys()])].sort();
  const run = () => write('PUT', pathOf(name), { ...sinkOf(mine), ...(position === '' ? {} : { Position: Number(position) }) });
  /** @param {keyof typeof BEGIN} field */
  const set = (field) => (/** @type {any} */ value) => draft.set({ [field]: value });
  const { type } = mine;
  return html`<${Head} title=${sink === null ? 'New event sink' : name} over=${over} status=${status}
      aside=${html`${remove}<${Action} kind="main" disabled=${name === ''} run=${run}
        done=${() => { draft.saved(); if (sink === null) go(`/sinks/of/${encodeURIComponent(name)}`); }}>Save<//>`} />
    ${children}<${Newer} draft=${draft} />
    <div class="grid"><div class="c6"><${Card} title="Receiver"><div class="body form">
      ${sink === null ? html`<${Text} label="Name" mono value=${typed} set=${setTyped} />` : null}
      <${Choice} label="Type" of=${Object.keys(ADDRESSES)} value=${type} set=${set('type')} />
      <${Text} label="Address" mono value=${mine.address} set=${set('address')} hint=${ADDRESSES[type] ?? ''} />
      ${type === 'nats' || type === 'kafka' ? html`<${Text} label=${type === 'nats' ? 'Subject' : 'Topic of Kafka'} mono
        value=${mine.subject} set=${set('subject')} />` : null}
      ${type === 'kafka' ? html`<${Choice} label="Key of messages, empty for one partition" of=${KEYS} value=${mine.key}
        set=${set('key')} />` : null}
      ${type === 'file' ? null : html`<${Text} label=${type === 'webhook' ? 'Key of signatures' : 'User and password'} mono
        type="password" autocomplete="new-password" value=${mine.secret} set=${set('secret')}
        hint=${type === 'webhook' ? '' : type === 'nats' ? 'user:password, or a token' : 'user:password'} />`}
      ${type === 'webhook' ? html`<${Area} label="Headers, one a line: Name: value" rows=${3} value=${mine.headers}
        set=${set('headers')} />` : null}</div><//></div>
    <div class="c6"><${Card} title="Events"><div class="body form">
      <${Choice} label="Namespace" of=${spaces} value=${mine.namespace} set=${set('namespace')} />
      <${Area} label="Topics, one a line: Job, or Job:web. None is all" rows=${3} value=${mine.topics} set=${set('topics')} />
      <${Text} label="Filter" mono value=${mine.filter} set=${set('filter')} />
      <${Check} label="with the events that Nomad does not have" value=${mine.full} set=${set('full')} />
      <${Text} label="Entries in one delivery, at most" type="number" min="0" value=${mine.batch} set=${set('batch')} />
      ${sink === null ? html`<${Text} label="Begin after index" type="number" min="0" value=${position} set=${setPosition}
        hint="Without it: now. 0: the oldest entry that is kept." />` : null}</div><//></div></div>`;
}
