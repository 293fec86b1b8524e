/**
 * Settings that are objects in a file and also have a text form. Environment variables and flags have only the text form; a file
 * that uses it is read with a warning.
 */
type ShortForm = Readonly<{
  form: string
  /** What to write in a file. */
  instead: string
  /** What to write in the environment variable; undefined for a setting that no variable can express. */
  inVariable?: string
  /** The value as objects; undefined if nothing in it is text. An invalid text stays, for the schema to refuse. */
  read(value: unknown): unknown
}>

type Fields = Readonly<Record<string, unknown>>

/** A pattern whose named groups are the fields; an unmatched group omits its field. */
const textReader = (pattern: RegExp) => (text: string) => {
  const groups = pattern.exec(text)?.groups
  return groups && Object.fromEntries(Object.entries(groups).filter(([, value]) => value !== undefined))
}

const entries = (form: string, instead: string, pattern: RegExp): ShortForm => ({
  form,
  instead: `each entry as an object, such as ${instead}`,
  inVariable: `each entry as ${form}`,
  read: (value) => (Array.isArray(value) ? withObjects(value, textReader(pattern)) : undefined),
})

function withObjects(list: readonly unknown[], read: (text: string) => unknown): readonly unknown[] | undefined {
  if (!list.some((entry) => typeof entry === 'string')) return undefined
  return list.map((entry) => (typeof entry === 'string' ? (read(entry) ?? entry) : entry))
}

const readPorts = textReader(/^(?<from>\d{1,5})-(?<to>\d{1,5})$/)
const forwardPorts: ShortForm = {
  form: 'FROM-TO',
  instead: '{ from: 20000, to: 31999 }',
  inVariable: 'it as FROM-TO, such as 20000-31999',
  read(value) {
    if (typeof value !== 'string') return undefined
    const range = readPorts(value.trim())
    return range === undefined ? value : { from: Number(range['from']), to: Number(range['to']) }
  },
}

const otlpHeaders: ShortForm = {
  form: 'NAME=VALUE,NAME=VALUE',
  instead: '{ authorization: env:NAME }',
  inVariable: 'it as NAME=VALUE,NAME=VALUE, with %2C for a comma in a value',
  read: (value) => (typeof value === 'string' ? (headersOf(value) ?? value) : undefined),
}

/** The format of OpenTelemetry's own variables; undefined for a malformed text. */
function headersOf(text: string): Readonly<Record<string, string>> | undefined {
  const headers = new Headers()
  try {
    for (const pair of text.split(',')) {
      const at = pair.indexOf('=')
      if (at < 1) return undefined
      headers.append(pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim()))
    }
  } catch {
    return undefined
  }
  return Object.fromEntries(headers)
}

const secretKeys: ShortForm = {
  form: 'KEY,KEY',
  instead: 'a list, such as [env:NEW_KEY, env:OLD_KEY]',
  inVariable: 'several as KEY,KEY',
  read: (value) => (typeof value === 'string' && value.includes(',') ? value.split(',') : undefined),
}

const readHours = textReader(/^(?<from>[^-]*)-(?<to>[^-]*)$/)
const readTarget = textReader(/^(?<provider>[^:]*):(?<model>.*)$/s)
const modelRules: ShortForm = {
  form: 'between: "HH:MM-HH:MM", use and fall_back as PROVIDER:MODEL',
  instead: 'between as { from: "22:00", to: "06:00" }, and each model as { provider: NAME, model: NAME }',
  read(value) {
    if (!Array.isArray(value)) return undefined
    const rules = value.map((rule: unknown) => (isFields(rule) ? withoutTexts(rule) : rule))
    return rules.some((rule, index) => rule !== value[index]) ? rules : undefined
  },
}

/** The rule itself, if it has no text form. */
function withoutTexts(rule: Fields): Fields {
  const { use, fall_back, when } = rule
  const changed: Record<string, unknown> = {}
  if (typeof use === 'string') changed['use'] = readTarget(use) ?? use
  const list = Array.isArray(fall_back) ? withObjects(fall_back, readTarget) : undefined
  if (list !== undefined) changed['fall_back'] = list
  const between = isFields(when) ? when['between'] : undefined
  if (typeof between === 'string') changed['when'] = { ...(when as Fields), between: readHours(between) ?? between }
  return Object.keys(changed).length === 0 ? rule : { ...rule, ...changed }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const shortForms: ReadonlyMap<string, ShortForm> = new Map([
  ['secret_key', secretKeys],
  ['interactions.otlp.headers', otlpHeaders],
  [
    'workspaces.mounts',
    entries(
      'MODE PATH, perhaps with tenant=NAME',
      '{ mode: ro, path: /srv/data }',
      /^(?<mode>ro|rw) (?<path>\/.*?)(?: tenant=(?<tenant>\S+))?$/,
    ),
  ],
  [
    'workspaces.credentials',
    entries(
      'HOST HEADER env:NAME',
      '{ host: api.github.com, header: Authorization, value: env:NAME }',
      /^(?<host>\S+) (?<header>\S+) (?<value>env:\S+)$/,
    ),
  ],
  ['workspaces.forward_ports', forwardPorts],
  ['model_proxy.rules', modelRules],
  [
    'executions.secrets',
    entries('NAME env:VARIABLE', '{ name: NAME, value: env:VARIABLE }', /^(?<name>\S+) (?<value>env:\S+)$/),
  ],
  ['executions.values', entries('NAME=VALUE', '{ name: NAME, value: VALUE }', /^(?<name>[^=\s]+)=(?<value>.*)$/s)],
  [
    'workflows.images',
    entries('IMAGE=NAME', '{ image: IMAGE, workspace_image: NAME }', /^(?<image>[^=\s]+)=(?<workspace_image>[^=\s]+)$/),
  ],
])

/** The value with objects instead of text, and what to write in a file if it had text. */
export function withoutShortForms(
  path: string,
  value: unknown,
): Readonly<{ value: unknown; used?: Readonly<{ form: string; instead: string }> }> {
  const short = shortForms.get(path)
  const read = short?.read(value)
  return short === undefined || read === undefined ? { value } : { value: read, used: short }
}

/** What to write in the variable of the field; undefined if it needs no explanation. */
export const variableForm = (path: string): string | undefined => shortForms.get(path)?.inVariable

/** Whether the field is one setting although it is an object. */
export const hasShortForm = (path: string): boolean => shortForms.has(path)
