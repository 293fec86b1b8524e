import { createRequire } from 'node:module'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'

/**
 * Handlebars for text that is no HTML: nothing is escaped, so JSON stays JSON. What a template can reach is only what it is
 * handed, never what JavaScript hangs on it, and loops are counted. A name that is not there renders as nothing.
 */
export function renderTemplate(field: string, template: string, values: Readonly<Record<string, unknown>>): string {
  if (template.length > limits.promptTemplateCharsMax) {
    throw invalidTemplate(field, `it may have ${limits.promptTemplateCharsMax} characters`)
  }
  try {
    const text = compiled(template)(values, {
      allowProtoMethodsByDefault: false,
      allowProtoPropertiesByDefault: false,
      data: { turns: { left: limits.templateTurnsMax } },
    })
    if (text.length <= limits.promptCharsMax) return text
  } catch (error) {
    if (error instanceof AppError) throw error
    const reason = error instanceof Error ? error.message.split('\n').join(' ').slice(0, 300) : 'it cannot be rendered'
    throw invalidTemplate(field, reason)
  }
  throw invalidTemplate(field, `what it renders may have ${limits.promptCharsMax} characters`)
}

const invalidTemplate = (field: string, reason: string): AppError =>
  new AppError('ERR_TEMPLATE_INVALID', `${field}: the template cannot be used: ${reason}`, { field })

type Handlebars = typeof import('handlebars')
type Compiled = ReturnType<Handlebars['compile']>
const kept = new Map<string, Compiled>()
const KEPT_MAX = 100
let engine: Handlebars | undefined

function compiled(template: string): Compiled {
  const found = kept.get(template)
  if (found !== undefined) return found
  engine ??= createTemplateEngine()
  const made = engine.compile(template, { noEscape: true, strict: false, knownHelpersOnly: false })
  if (kept.size >= KEPT_MAX) kept.delete(kept.keys().next().value!)
  kept.set(template, made)
  return made
}

type Options = Readonly<{ data?: { turns?: { left: number } } }>

/** Loaded at the first template: most starts of the program need none. */
function createTemplateEngine(): Handlebars {
  const made = (createRequire(import.meta.url)('handlebars') as Handlebars).create()
  made.unregisterHelper('log')
  const { each } = made.helpers
  made.registerHelper('each', function (this: unknown, list: unknown, options: Options) {
    const turns = options.data?.turns
    const size = typeof list === 'object' && list !== null ? Object.keys(list).length : 0
    if (turns !== undefined) turns.left -= size
    if (turns !== undefined && turns.left < 0) throw new Error('its loops have too many turns')
    return each!.call(this, list, options) as string
  })
  made.registerHelper('json', (value: unknown) => JSON.stringify(value) ?? '')
  made.registerHelper('keys', (value: unknown) =>
    typeof value === 'object' && value !== null ? Object.keys(value).join(', ') : '',
  )
  return made
}

/**
 * A value that a template can look into and print: an object or a list prints as its JSON, or as `text` if given, and still
 * has its members.
 */
export function addressable(value: Json, text?: string): unknown {
  if (typeof value !== 'object' || value === null) return value
  const copy: object = Array.isArray(value)
    ? value.map((member: Json) => addressable(member))
    : Object.assign(
        Object.create(null) as object,
        Object.fromEntries(Object.entries(value).map(([name, member]) => [name, addressable(member ?? null)])),
      )
  const shown = text ?? JSON.stringify(value)
  Object.defineProperty(copy, 'toString', { value: () => shown, enumerable: false })
  return copy
}
