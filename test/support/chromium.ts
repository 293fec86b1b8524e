import { type Browser, type BrowserContext, chromium } from 'playwright-core'

/** Started with the first context, and ended when none has been open for this long. */
const IDLE_MS = 20_000
let browser: Promise<Browser> | undefined
let openContexts = 0
let ending: NodeJS.Timeout | undefined

/** One for all tests of a process, since a start takes longer than most of what they do with it. */
const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  })

/** A real browser as a person has it who opens it anew, which talks to this machine alone. With `trusting` it takes every certificate. */
export async function openChromium({
  trusting = false,
} = {}): Promise<AsyncDisposable & Readonly<{ context: BrowserContext }>> {
  clearTimeout(ending)
  openContexts++
  browser ??= launch()
  const context = await (await browser).newContext({ ignoreHTTPSErrors: trusting })
  return {
    context,
    async [Symbol.asyncDispose]() {
      await context.close()
      if (--openContexts > 0) return
      ending = setTimeout(() => {
        void browser?.then((idle) => idle.close())
        browser = undefined
      }, IDLE_MS)
      ending.unref()
    },
  }
}
