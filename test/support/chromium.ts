import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type BrowserContext, chromium } from 'playwright-core'

/** A real browser with a profile of its own, which talks to this machine alone. With `trusting` it takes every certificate. */
export async function openChromium({
  trusting = false,
} = {}): Promise<AsyncDisposable & Readonly<{ context: BrowserContext }>> {
  const profile = mkdtempSync(join(tmpdir(), 'castellan-chromium-'))
  const context = await chromium.launchPersistentContext(profile, {
    ignoreHTTPSErrors: trusting,
    executablePath: '/usr/bin/chromium',
    args: [
      ...['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run'],
      ...['--disable-background-networking', '--disable-component-update', '--disable-sync'],
    ],
  })
  return {
    context,
    async [Symbol.asyncDispose]() {
      await context.close()
      rmSync(profile, { recursive: true, force: true })
    },
  }
}
