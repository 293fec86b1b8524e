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
registerHooks({
  resolve: (specifier, context, next) =>
    specifier === LANGUAGES && context.parentURL?.includes('/node_modules/zod/')
      ? { url: 'data:text/javascript,', shortCircuit: true }
      : next(specifier, context),
})

await import('./strip-types.mjs')
await import('../src/main.ts')
