import { enableCompileCache, flushCompileCache, registerHooks } from 'node:module'
import { isAbsolute, join } from 'node:path'

// Compiled code is kept between starts. Set here and not by NODE_COMPILE_CACHE, which our child processes would inherit.
const { HOME: home, XDG_CACHE_HOME: given } = process.env
const cacheHome = given !== undefined && isAbsolute(given) ? given : home && join(home, '.cache')
if (cacheHome) {
  enableCompileCache(join(cacheHome, 'castellan', 'compile'))
  // Node writes the cache at a normal exit; a server may end by SIGKILL.
  setTimeout(flushCompileCache, 5_000).unref()
}

// The validation library exports the messages of 64 languages from its main module. None but English is ever used, and
// loading them takes 3 MiB.
const LANGUAGES = '../locales/index.js'
const source = new URL('../src/', import.meta.url).href
const isBelowModules = source.includes('/node_modules/')
registerHooks({
  resolve(specifier, context, next) {
    const { parentURL = '' } = context
    if (specifier === LANGUAGES && parentURL.includes('/node_modules/zod/')) {
      return { url: 'data:text/javascript,', shortCircuit: true }
    }
    // Our own modules name each other by file. To look for each on the disk and for its package takes a sixth of a start.
    if (!isBelowModules && specifier.startsWith('.') && specifier.endsWith('.ts') && parentURL.startsWith(source)) {
      return { url: new URL(specifier, parentURL).href, format: 'module-typescript', shortCircuit: true }
    }
    return next(specifier, context)
  },
})

await import('./strip-types.mjs')
await import('../src/main.ts')
