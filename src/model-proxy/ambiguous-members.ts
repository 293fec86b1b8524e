import { AppError } from '../contract/app-error.ts'
import { endOfJsonString } from '../kernel/json-bounds.ts'

/**
 * Members of a request that decide something here: permission, cost, or what is judged. Gemini accepts those of several words in
 * both spellings.
 */
const members = [
  'audio',
  'background',
  'cachedContent',
  'cached_content',
  'container',
  'content',
  'contents',
  'conversation',
  'fallbacks',
  'functions',
  'generationConfig',
  'generation_config',
  'inference_geo',
  'input',
  'instructions',
  'max_completion_tokens',
  'max_output_tokens',
  'max_tokens',
  'mcp_servers',
  'messages',
  'metadata',
  'modalities',
  'model',
  'models',
  'n',
  'plugins',
  'preset',
  'previous_response_id',
  'prompt',
  'provider',
  'requests',
  'route',
  'search_parameters',
  'serviceTier',
  'service_tier',
  'speed',
  'store',
  'stream',
  'stream_options',
  'system',
  'systemInstruction',
  'system_instruction',
  'tools',
  'transforms',
  'user_config',
  'web_search_options',
] as const

/** Names as the most lenient parser compares them; Go's treats a long s as an s. */
const comparable = (name: string): string => name.toUpperCase().toLowerCase().replaceAll('_', '')

/** Requests have the same few members, again and again. */
const comparables = new Map<string, string>()
const NAMES_MAX = 500
const NAME_CHARS_MAX = 64

function remembered(name: string): string {
  const known = comparables.get(name)
  if (known !== undefined) return known
  const made = comparable(name)
  if (comparables.size < NAMES_MAX && name.length <= NAME_CHARS_MAX) comparables.set(name, made)
  return made
}

const spellings: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  members.map((name) => [comparable(name), new Set(members.filter((other) => comparable(other) === comparable(name)))]),
)

/**
 * A body is forwarded byte for byte, so every parser must read it the same way. Refuses a member that occurs twice, or that
 * differs from one of these in case alone. The text is a JSON object.
 */
export function requireUnambiguous(text: string): void {
  const seen = new Set<string>()
  for (const name of memberNames(text)) {
    const key = remembered(name)
    const allowed = spellings.get(key)
    if (allowed === undefined) continue
    if (!allowed.has(name)) throw misspelt(name, [...allowed])
    if (seen.has(key)) throw repeated(name)
    seen.add(key)
  }
}

/**
 * Whether some object in a JSON text has a member twice. Parsers differ in which of the two they take, so that a text can be judged by one and
 * read by the other.
 */
export function hasRepeatedMembers(text: string): boolean {
  /** The names in each object that is open; undefined for a list. */
  const open: (Set<string> | undefined)[] = []
  let isName = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfJsonString(text, at)
      const names = isName ? open.at(-1) : undefined
      if (names !== undefined) {
        const { size } = names
        if (names.add(nameIn(text.slice(at, end + 1))).size === size) return true
      }
      isName = false
      at = end
    } else if (code === OPEN_OBJECT) isName = open.push(new Set()) > 0
    else if (code === OPEN_LIST) open.push(undefined)
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) open.pop()
    else if (code === COMMA) isName = open.at(-1) !== undefined
  }
  return false
}

const [QUOTE, COMMA] = [0x22, 0x2c]
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d]

/** Of the outermost object, including those that a parser drops because they are repeated. */
function memberNames(text: string): readonly string[] {
  const names: string[] = []
  let depth = 0
  let isName = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const end = endOfJsonString(text, at)
      if (isName) names.push(nameIn(text.slice(at, end + 1)))
      isName = false
      at = end
    } else if (code === OPEN_OBJECT || code === OPEN_LIST) isName = ++depth === 1
    else if (code === CLOSE_OBJECT || code === CLOSE_LIST) depth--
    else if (code === COMMA && depth === 1) isName = true
  }
  return names
}

const nameIn = (quoted: string): string =>
  quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1)

const misspelt = (name: string, allowed: readonly string[]): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `The body has '${name.slice(0, 64)}', which some parsers read as '${allowed[0]!}'. Write it as '${allowed[0]!}'.`,
    {
      field: allowed[0]!,
    },
  )

const repeated = (name: string): AppError =>
  new AppError('ERR_INVALID_INPUT', `The body has '${name}' twice. Send it once.`, { field: name })
