// Runs the stories, one after another, in one browser. A story that fails says
// its name, the page and what the browser said.

import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { Agent } from './agent.mjs';
import { acl, open } from './stories.mjs';

const { chromium } = await import(pathToFileURL(join(process.env.UI_MODULES, 'playwright-core/index.mjs')).href);
const axe = createRequire(join(process.env.UI_MODULES, 'x.js')).resolve('axe-core/axe.min.js');

let passed = 0;
let failed = 0;

/** With UI_FILES=api/ui the page's files come from there instead of from the program, with the program's policy. */
const files = process.env.UI_FILES;
const TYPES = { '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };

async function fromDisk(route) {
  const wanted = join(files, new URL(route.request().url()).pathname.slice('/ui/'.length));
  const path = TYPES[extname(wanted)] && existsSync(wanted) ? wanted : join(files, 'index.html');
  const response = await route.fetch();
  await route.fulfill({ path, headers: { ...response.headers(),
    'content-type': TYPES[extname(path)] ?? 'text/html' } });
}

const browser = await chromium.launch({
  executablePath: process.env.UI_BROWSER,
  args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update', '--disable-sync',
    // A page from the disk has no address, and might open no websocket to this machine.
    ...(files ? ['--disable-features=LocalNetworkAccessChecks'] : [])],
});
/** Only the stories whose name matches. */
const only = new RegExp(process.env.UI_ONLY ?? '');

/** Runs one story in a fresh profile of the browser. */
async function tell(name, story, agent) {
  // The content policy stays in force for the page; axe comes in beside it.
  const context = await browser.newContext({ viewport: { width: 1360, height: 860 }, bypassCSP: false });
  if (files) {
    await context.route((url) => url.pathname.startsWith('/ui/') && !url.pathname.endsWith('.json'),
      // A page may be left while its files are on their way.
      (route) => fromDisk(route).catch(() => {}));
  }
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
    for (const [name, story] of Object.entries(stories)) {
      if (only.test(name)) await tell(name, story, agent);
    }
  } finally {
    await agent.end();
  }
}
await browser.close();
console.log(`== ui: ${passed} stories pass, ${failed} fail`);
process.exit(failed === 0 ? 0 : 1);
