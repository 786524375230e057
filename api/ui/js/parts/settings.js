//! Label and links of the `ui` block of the agent's configuration.

import { html, signal, useSignal } from '../lib.js';

/** @typedef {{Label: {Text: string, BackgroundColor: string, TextColor: string}, Consul: {BaseUIURL: string},
 *   Vault: {BaseUIURL: string}}} Settings */

const settings = signal(/** @type {Settings | null} */ (null));

fetch('/ui/settings.json').then((response) => response.json()).then((found) => { settings.value = found; }, () => {
  // Without an answer the page has neither a label nor links.
});

export function Label() {
  const { Text = '', BackgroundColor = '', TextColor = '' } = useSignal(settings)?.Label ?? {};
  if (Text === '') return null;
  return html`<span class="label" style=${{ background: BackgroundColor, color: TextColor }}>${Text}</span>`;
}

export function Elsewhere() {
  const found = useSignal(settings);
  const links = [['Consul', found?.Consul?.BaseUIURL], ['Vault', found?.Vault?.BaseUIURL]].filter(([, url]) => url);
  return links.map(([name, url]) => html`<a key=${name} href=${url} target="_blank" rel="noreferrer">${name} ↗</a> `);
}
