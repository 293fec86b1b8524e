import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { fileURLToPath } from 'node:url'

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
