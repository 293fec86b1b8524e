import { readFileSync } from 'node:fs'
import { enableCompileCache, flushCompileCache, registerHooks, stripTypeScriptTypes } from 'node:module'
import { isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Compiled code is kept between starts. Set here and not by NODE_COMPILE_CACHE, which our child processes would inherit.
const { HOME: home, XDG_CACHE_HOME: given } = process.env
const cacheHome = given !== undefined && isAbsolute(given) ? given : home && join(home, '.cache')
if (cacheHome) {
  enableCompileCache(join(cacheHome, 'castellan', 'compile'))
  // Node writes the cache at a normal exit; a server may end by SIGKILL.
  setTimeout(flushCompileCache, 5_000).unref()
}

// Node does not strip types below node_modules, where we are when installed as a dependency.
const source = new URL('../src/', import.meta.url).href
if (source.includes('/node_modules/')) {
  registerHooks({
    load(url, context, next) {
      if (!url.startsWith(source) || !url.endsWith('.ts')) return next(url, context)
      const text = stripTypeScriptTypes(readFileSync(fileURLToPath(url), 'utf8'))
      return { format: 'module', source: text, shortCircuit: true }
    },
  })
}

await import('../src/main.ts')
