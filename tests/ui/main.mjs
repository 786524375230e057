// Runs the stories, one after another, in one browser. A story that fails says
// its name, the page and what the browser said.

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { Agent } from './agent.mjs';
import { acl, open } from './stories.mjs';

const { chromium } = await import(pathToFileURL(join(process.env.UI_MODULES, 'playwright-core/index.mjs')).href);
const axe = createRequire(join(process.env.UI_MODULES, 'x.js')).resolve('axe-core/axe.min.js');

const browser = await chromium.launch({
  executablePath: process.env.UI_BROWSER,
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update', '--disable-sync'],
});
let passed = 0;
let failed = 0;

/** Runs one story in a fresh profile of the browser. */
async function tell(name, story, agent) {
  // The content policy stays in force for the page; axe comes in beside it.
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, bypassCSP: false });
  const page = await context.newPage();
  // Long enough for a machine that builds something beside.
  page.setDefaultTimeout(30_000);
  const said = [];
  page.on('pageerror', (error) => said.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (/Content Security Policy|defect/.test(message.text())) said.push(message.text());
  });
  const started = Date.now();
  try {
    await story({ page, agent, axe, context });
    if (said.length > 0) throw new Error('the page is not quiet');
    passed += 1;
    console.log(`ok   ${name} (${Date.now() - started} ms)`);
  } catch (error) {
    failed += 1;
    const state = await page.locator('.link-state, .offline').allTextContents().catch(() => ['no page']);
    console.log(`FAIL ${name} at ${page.url()}\n     ${error.stack}\n     ${said.join('\n     ')}\n     ${state.join(' | ')}`);
    if (process.env.UI_PICTURES) await page.screenshot({ path: join(process.env.UI_PICTURES, `${name.replace(/\W+/g,
      '-')}.png`) });
  }
  await context.close();
}

for (const [stories, options] of [[open, {}], [acl, { acl: true }]]) {
  const agent = await Agent.start(options);
  try {
    for (const [name, story] of Object.entries(stories)) await tell(name, story, agent);
  } finally {
    await agent.end();
  }
}
await browser.close();
console.log(`== ui: ${passed} stories pass, ${failed} fail`);
process.exit(failed === 0 ? 0 : 1);
