// What stories have in common: opening a page, waiting for a text, asking axe.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

export const LOOP = 'i=0; while true; do i=$((i+1)); echo line $i; sleep 0.2; done';
export const MARKUP = '<img src=x onerror="window.broken=1"><script>window.broken=1</script>';

/** Opens a page and waits until it follows the cluster. */
export async function visit(page, agent, path) {
  await page.goto(`${agent.address}/ui${path}`);
  await page.locator('.link-state', { hasText: 'live' }).waitFor();
}

/** Waits for an element with this text in the main part. */
export const sees = (page, text) => page.locator('main').getByText(text, { exact: false }).first().waitFor();

/** Fails with every finding of axe on the page, in the light and in the dark. */
export async function isAccessible(page, axe, name) {
  const source = readFileSync(axe, 'utf8');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.evaluate(source);
    const { violations } = await page.evaluate(() => window.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }));
    const words = violations.map(({ id,
      nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.html} ${node.any[0]?.message ?? ''}`).join(' | ')}`);
    assert.deepEqual(words, [], `${name}, ${colorScheme}`);
  }
}
