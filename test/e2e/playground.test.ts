import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Locator, Page } from 'playwright-core';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { CHROMIUM, launchChromium } from '../fixtures/chromium.ts';
import { DEFAULT_MODEL, pacedRunner, TINY_MODEL } from '../fixtures/default-model.ts';
import { Gateway } from '../fixtures/gateway.ts';
import { withChatTemplate } from '../fixtures/gguf-template.ts';
import { temporaryFolder } from '../fixtures/temporary-folder.ts';
import { thinkingTemplate } from '../fixtures/thinking-template.ts';
import { until } from '../fixtures/within.ts';

/**
 * The playground in a browser, as a person uses it. RUNNEL_TEST_SCREENSHOTS names a folder for the pictures of the documents,
 * which `make screenshots` has made.
 */

const SCREENSHOTS = process.env.RUNNEL_TEST_SCREENSHOTS;
const WAIT_MS = 60_000;
const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 780 };
const QUESTION = 'Tell me about lighthouses.';
const NUM_TOKENS = 140;
/** A fast runner would have ended its answer before a browser has found the button. */
const STEP_MS = 40;
/** So many are there when the runner is killed, or the answer stopped. */
const SOME_TOKENS = 20;
const KEY = 'correct-horse-battery';
const ADMIN = 'a-key-of-an-operator';

const test = suite('playground in a browser');
if (CHROMIUM === undefined) console.log('SKIPPED: Chromium is not installed: apt-get install chromium.');
const walk = CHROMIUM !== undefined ? test : test.skip;
let numWalks = 0;

let gateway: Gateway;
let runner: string;
let browser: Browser | undefined;

test.before(async () => {
  if (CHROMIUM === undefined) return;
  runner = pacedRunner(STEP_MS);
  gateway = await (await Gateway.start(DEFAULT_MODEL, ['--playground', 'dev', '--runner', runner])).ready();
  browser = await launchChromium();
});
test.after(async () => {
  await browser?.close();
  await gateway?.stop();
  if (numWalks > 0) console.log(`${numWalks} walks of the playground`);
});

interface Walk {
  readonly viewport?: { width: number; height: number };
  readonly colorScheme?: 'light' | 'dark';
  readonly url?: string;
  /** Of what the browser itself complains about, what is expected. */
  readonly expected?: RegExp;
}

/** Opens the page for a person who has never been there; afterwards, the browser has nothing to complain about. */
async function visit(how: Walk, person: (page: Page) => Promise<void>): Promise<void> {
  const { viewport = DESKTOP, colorScheme = 'light', url = gateway.url, expected = /^$/ } = how;
  assert.ok(browser);
  const context = await browser.newContext({ viewport, colorScheme, locale: 'en-GB' });
  context.setDefaultTimeout(WAIT_MS);
  const complaints: string[] = [];
  try {
    const page = await context.newPage();
    page.on('pageerror', (error) => complaints.push(String(error.stack)));
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(url)) complaints.push(`${request.url()} was asked for`);
    });
    await page.goto(url);
    await person(page);
  } finally {
    await context.close();
  }
  assert.equal(
    complaints.filter((complaint) => !expected.test(complaint)),
    [],
  );
  numWalks += 1;
}

async function say(page: Page, text: string): Promise<void> {
  await page.locator('#send').or(page.locator('#stop')).first().waitFor();
  await page.fill('#message', text);
  await page.locator('#send:enabled').waitFor();
  await page.press('#message', 'Enter');
}

/** Answers that are the same each time. */
async function beExact(page: Page, maxTokens = NUM_TOKENS): Promise<void> {
  await page.fill('#temperature', '0');
  await page.fill('#maxTokens', String(maxTokens));
}

function tokens(page: Page): Locator {
  return page.locator('.assistant').last().locator('[data-span]');
}

async function tokensCame(page: Page, count: number): Promise<void> {
  await tokens(page)
    .nth(count - 1)
    .waitFor();
}

/** The page renders soon after what it is told, not at once. */
async function gone(page: Page, selector: string): Promise<void> {
  await page.locator(selector).first().waitFor({ state: 'detached' });
  assert.is(await page.locator(selector).count(), 0);
}

function answered(page: Page): Promise<void> {
  return page.locator('#send').waitFor();
}

/** Of the last answer, without the marks in it. */
function textOf(page: Page): Promise<string> {
  return tokens(page).evaluateAll((spans) => spans.map((span) => span.textContent).join(''));
}

function footer(page: Page): Promise<string> {
  return page.locator('.assistant footer').last().innerText();
}

async function picture(page: Page, name: string): Promise<void> {
  if (SCREENSHOTS === undefined) return;
  mkdirSync(SCREENSHOTS, { recursive: true });
  await page.evaluate(() => document.querySelector('.panel')?.scrollTo(0, 0));
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

async function background(page: Page): Promise<number> {
  const colour = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  return Math.max(...(colour.match(/\d+/g) ?? []).map(Number));
}

walk('an answer comes token by token, shaded, and each token says what else it could have been', async () => {
  await visit({}, async (page) => {
    await beExact(page, 40);
    await say(page, QUESTION);
    await tokensCame(page, 3);
    assert.is(await page.locator('#stop').count(), 1, 'it is not whole yet');
    await answered(page);
    assert.match(await footer(page), /first token [\d.]+ m?s · [\d.]+ tokens\/s · 40 tokens · prompt \d+/);
    assert.match(await footer(page), 'ended at the token limit');
    assert.is(await tokens(page).count(), 40);
    const shades = await tokens(page).evaluateAll((spans) => spans.map((span) => span.className));
    assert.ok(shades.includes('s0') && new Set(shades).size > 1, shades.join(' '));
    const unlikely = page.locator('[data-span]:not(.s0)').first();
    await unlikely.hover();
    const rows = page.locator('.inspector tr');
    assert.ok((await rows.count()) >= 5);
    assert.match(await rows.first().innerText(), /\d %/);
    await page.uncheck('#shading');
    await gone(page, '.shaded');
    await page.locator('text=Again').click();
    await page.locator('#stop').waitFor();
    await answered(page);
    assert.match(await footer(page), '40 tokens');
  });
});

walk(
  'a runner that is killed by the button is a pause, and the answer is the one that it would have been',
  async () => {
    const messages = [{ role: 'user', content: QUESTION }];
    const body = { model: 'smollm2', messages, temperature: 0, max_tokens: NUM_TOKENS };
    const whole = (await (await gateway.post('/v1/chat/completions', body)).json()) as {
      choices: { message: { content: string } }[];
    };
    const { pid } = (await gateway.health()).runner;
    await visit({}, async (page) => {
      await beExact(page);
      await page.locator('.none', { hasText: 'No runner has died.' }).waitFor();
      await say(page, QUESTION);
      await tokensCame(page, SOME_TOKENS);
      await page.click('text=Kill the runner');
      await page.locator('.crashes b', { hasText: 'SIGKILL' }).waitFor();
      await picture(page, 'playground-restart');
      await answered(page);
      assert.is(await textOf(page), whole.choices[0]?.message.content);
      assert.match(await footer(page), '1 restart of the runner');
      assert.match(await page.locator('.assistant .pause').innerText(), /^restart · [\d.]+ m?s$/);
      assert.is.not((await gateway.health()).runner.pid, pid);
      await page.locator('[data-span].s2').nth(1).hover();
      await page.locator('.state[data-state=ready]').waitFor();
      await picture(page, 'playground');
    });
  },
);

walk('thinking is folded above its answer while it streams; keys open it', async () => {
  const path = temporaryFolder().write(
    'thinking.gguf',
    withChatTemplate(readFileSync(DEFAULT_MODEL), thinkingTemplate),
  );
  const thinking = await (await Gateway.start(path, ['--runner', runner])).ready();
  try {
    for (const colorScheme of ['light', 'dark'] as const)
      await visit({ url: thinking.url, colorScheme }, async (page) => {
        // The model has not learnt to end its thinking.
        await page.route('**/v1/chat/completions', (route) => {
          const postData = { ...route.request().postDataJSON(), thinking_token_budget: 40 };
          return route.continue({ postData });
        });
        await beExact(page, 80);
        await say(page, QUESTION);
        const thought = page.locator('.assistant details.thought');
        await thought.locator('summary', { hasText: 'Thinking' }).waitFor();
        assert.not(await thought.locator('p').isVisible(), 'folded');
        await thought.locator('summary').focus();
        await page.keyboard.press('Enter');
        await thought.locator('p').waitFor();
        const early = await thought.locator('p').innerText();
        assert.is(await tokens(page).count(), 0, 'it is still thinking');
        await tokensCame(page, 5);
        assert.is(await thought.locator('summary').innerText(), 'Thought');
        const late = await thought.locator('p').innerText();
        assert.ok(late.length > early.length && late.startsWith(early.trimEnd()), `${early} | ${late}`);
        await answered(page);
        assert.not.match(`${late}${await textOf(page)}`, 'think>');
        assert.match(await footer(page), '80 tokens');
        await thought.locator('summary').focus();
        await page.keyboard.press('Space');
        await thought.locator('p').waitFor({ state: 'hidden' });
      });
  } finally {
    await thinking.stop();
  }
});

walk('an answer is stopped by Esc, and what the server refuses is said in its words', async () => {
  await visit({ expected: /status of 400/ }, async (page) => {
    await beExact(page, 500);
    await say(page, QUESTION);
    await tokensCame(page, SOME_TOKENS);
    await page.keyboard.press('Escape');
    await answered(page);
    assert.match(await footer(page), 'stopped');
    await gateway.idle();
    await page.fill('#temperature', '3');
    await say(page, 'And now?');
    const failure = page.locator('.assistant .failure');
    assert.match(await failure.innerText(), 'temperature must be');
    await page.click('text=New');
    await gone(page, '.assistant');
  });
});

walk('a protected page asks for a key, keeps it per tab, and names refused parts', async () => {
  const folder = temporaryFolder();
  const keys = ['--api-keys-file', folder.write('keys', `${KEY}\n`, 0o600)];
  const admins = ['--admin-keys-file', folder.write('admins', `${ADMIN}\n`, 0o600)];
  const guarded = await Gateway.start(TINY_MODEL, [...keys, ...admins]);
  try {
    const dialog = 'dialog .failure';
    await visit({ url: guarded.url, expected: /status of (401|403)/ }, async (page) => {
      assert.match(await page.locator(dialog).innerText(), 'A key is needed');
      await page.fill('#key', `${KEY}x`);
      await page.keyboard.press('Enter');
      await page.locator(dialog, { hasText: 'does not know the key' }).waitFor();
      await page.fill('#key', KEY);
      await page.keyboard.press('Enter');
      await page.locator('.model option', { hasText: 'tiny' }).waitFor({ state: 'attached' });
      assert.is(await page.locator('dialog').count(), 0);
      await page.locator('.none', { hasText: 'is for operators: send an admin key' }).waitFor();
      assert.is(await page.locator('.kill').count(), 0, 'not started for that');
      await page.locator('.state[data-state=ready]').waitFor();
      await beExact(page, 20);
      await say(page, 'hello');
      await answered(page);
      assert.match(await footer(page), /tokens/);
      await page.reload();
      await page.locator('.model option', { hasText: 'tiny' }).waitFor({ state: 'attached' });
      assert.is(await page.locator('dialog').count(), 0, 'the tab has it still');
      await page.click('text=Key');
      await page.fill('#key', ADMIN);
      // The second one is asked for when the first one is on the page.
      for (let look = 0; look < 2; look += 1) await page.waitForResponse('**/health');
      assert.is(await page.inputValue('#key'), ADMIN, 'what is typed stays');
      await page.click('text=Use this key');
      await page.locator('.none', { hasText: 'No runner has died.' }).waitFor();
      assert.is(await page.evaluate(() => localStorage.length), 0);
    });
  } finally {
    await guarded.stop();
  }
});

walk('the page follows the system’s dark mode until changed, and fits a phone', async () => {
  await visit({ viewport: PHONE, colorScheme: 'dark' }, async (page) => {
    assert.ok((await background(page)) < 60);
    assert.is(await page.locator('.panel').count(), 0, 'folded');
    await page.click('#panel-button');
    await beExact(page, 60);
    await page.keyboard.press('Escape');
    await gone(page, '.panel');
    await say(page, 'Why do people live near rivers? Answer briefly.');
    await tokensCame(page, SOME_TOKENS);
    await answered(page);
    const fits = (): Promise<boolean> =>
      page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && scrollY === 0);
    assert.ok(await fits());
    await tokens(page)
      .nth(8)
      .tap()
      .catch(() => tokens(page).nth(8).click());
    const box = await page.locator('.inspector').boundingBox();
    assert.ok(
      box !== null && box.x >= 0 && box.x + box.width <= PHONE.width && box.y + box.height <= PHONE.height,
    );
    await picture(page, 'playground-phone');
    for (const id of ['#message', '#send', '#panel-button', '#theme-button'])
      assert.ok(await page.locator(id).isVisible(), id);
    await page.click('#theme-button');
    assert.ok((await background(page)) > 200, 'light');
    await page.reload();
    assert.ok((await background(page)) > 200, 'still light');
    await page.click('#theme-button');
    assert.ok((await background(page)) < 60, 'dark');
  });
});

walk('everything can be reached by keys, tokens too', async () => {
  await visit({}, async (page) => {
    await beExact(page, 30);
    await page.locator('body').press('Escape');
    await page.locator('#shading').focus();
    await page.keyboard.press('/');
    await page.locator('#message:focus').waitFor();
    await page.locator('.model option').first().waitFor({ state: 'attached' });
    await page.keyboard.type('One line');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('and another');
    await page.keyboard.press('Enter');
    await page.locator('.user', { hasText: 'One line\nand another' }).waitFor();
    await answered(page);
    const focused = (): Promise<string | undefined> =>
      page.evaluate(() => (document.activeElement as HTMLElement).dataset.span);
    await tokens(page).first().focus();
    assert.is(await focused(), '0');
    for (let step = 0; step < 3; step += 1) await page.keyboard.press('ArrowRight');
    assert.is(await focused(), '3');
    await page.keyboard.press('ArrowLeft');
    assert.is(await focused(), '2');
    assert.is(await page.locator('.inspector').count(), 1);
    await page.keyboard.press('Escape');
    await gone(page, '.inspector');
    const stops: string[] = [];
    await page.evaluate(() => (document.activeElement as HTMLElement).blur());
    for (let step = 0; step < 40; step += 1) {
      await page.keyboard.press('Tab');
      stops.push(
        await page.evaluate(() => document.activeElement?.id || (document.activeElement?.textContent ?? '')),
      );
    }
    for (const stop of [
      'Kill the runner',
      'New',
      'Key',
      'theme-button',
      'panel-button',
      'message',
      'shading',
      'temperature',
      'seed',
    ])
      assert.ok(stops.includes(stop), `${stop} in ${stops.join(', ')}`);
    assert.match(await page.locator('[aria-live=polite]').last().innerText(), /\w/);
  });
});

walk('the server is asked how it is once a second, one at a time, and not while nobody looks', async () => {
  await visit({}, async (page) => {
    // Away from the page that has asked already.
    await page.goto('about:blank');
    await page.clock.install();
    let numAsked = 0;
    let answer: (() => Promise<void>) | undefined;
    await page.route('**/health', (route) => {
      numAsked += 1;
      answer = () => route.continue();
    });
    const answerNext = async (): Promise<void> => {
      await until(WAIT_MS, 'A question', () => answer !== undefined);
      const given = answer;
      answer = undefined;
      const response = page.waitForResponse('**/health');
      await given?.();
      await (await response).finished();
    };
    const look = (isHidden: boolean): Promise<void> =>
      page.evaluate((hidden) => {
        Object.defineProperty(document, 'hidden', { configurable: true, value: hidden });
        document.dispatchEvent(new Event('visibilitychange'));
      }, isHidden);
    await page.goto(gateway.url);
    await until(WAIT_MS, 'The first question', () => numAsked === 1);
    // Less than it waits for an answer.
    await page.clock.runFor(4000);
    assert.is(numAsked, 1, 'it has no answer yet');
    await answerNext();
    await page.locator('.state[data-state=ready]').waitFor();
    await page.clock.runFor(2000);
    await until(WAIT_MS, 'The second question', () => numAsked === 2);
    await look(true);
    await answerNext();
    await page.clock.runFor(60_000);
    assert.is(numAsked, 2, 'nobody looks');
    await look(false);
    await until(WAIT_MS, 'A question to who looks', () => numAsked === 3);
    await answerNext();
  });
});

test.run();
