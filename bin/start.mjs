import { enableCompileCache, flushCompileCache } from 'node:module'
import { isAbsolute, join } from 'node:path'

// Compiled code is kept between starts. Set here and not by NODE_COMPILE_CACHE, which our child processes would inherit.
const { HOME: home, XDG_CACHE_HOME: given } = process.env
const cacheHome = given !== undefined && isAbsolute(given) ? given : home && join(home, '.cache')
if (cacheHome) {
  enableCompileCache(join(cacheHome, 'castellan', 'compile'))
  // Node writes the cache at a normal exit; a server may end by SIGKILL.
  setTimeout(flushCompileCache, 5_000).unref()
}

await import('./strip-types.mjs')
await import('../src/main.ts')
