import { envOf } from '../agents/normalised-manifest.ts'
import { checkTemplate, checkTemplates, warnOfShellWords } from './check-texts.ts'
import { type GivenValues, type OutputHandler, webhookMethods } from './manifest-types.ts'
import { readCommand, readCpu, readSize } from './read-commands.ts'
import { type Fields, quoted } from './read-fields.ts'
import { readCommandTime } from './read-values.ts'

type Type = OutputHandler['type']
type Common = Pick<OutputHandler, 'timeoutMs' | 'required'>
type Reader = (handler: Fields, common: Common) => OutputHandler | null

const ownFields: Readonly<Record<Type, readonly string[]>> = {
  agent: ['agent_id', 'input_template'],
  webhook: ['url', 'method', 'headers', 'body_template', 'retry'],
  container: ['image', 'command', 'env', 'resources'],
  mcp_tool: ['tool_name', 'arguments'],
}
const types = Object.keys(ownFields) as readonly Type[]
const HEADER_CHARS_MAX = 4_096

export function readOutputHandler(fields: Fields): OutputHandler | null {
  const handler = fields.map('output_handler', {
    known: ['type', 'timeout_seconds', 'required', ...Object.values(ownFields).flat()],
    renamed: { agent: 'agent_id', tool: 'tool_name', retries: 'retry', body: 'body_template' },
  })
  if (handler === undefined) return null
  const seconds = handler.number('timeout_seconds', { min: 1, max: 86_400 })
  const common = {
    timeoutMs: seconds === undefined ? null : seconds * 1000,
    required: handler.flag('required') ?? false,
  }
  const input = handler.text('type', { required: true })
  if (input === undefined) return null
  const type = types.find((one) => one === input)
  if (type === undefined) {
    handler.error('type', `${quoted(input)} is not one of ${types.join(', ')}`)
    return null
  }
  const others = types.filter((one) => one !== type).flatMap((one) => ownFields[one])
  for (const key of handler.keys.filter((one) => others.includes(one))) {
    handler.warn(key, `is not a field of the type ${type} and is ignored`)
  }
  return readers[type](handler, common)
}

const readers: Readonly<Record<Type, Reader>> = {
  agent(handler, common) {
    const agent = handler.text('agent_id', { required: true, max: 256 })
    const inputTemplate = handler.text('input_template', { blank: true }) ?? null
    checkTemplate(handler, 'input_template', inputTemplate)
    return agent === undefined ? null : { type: 'agent', agent, inputTemplate, ...common }
  },
  webhook(handler, common) {
    const url = readUrl(handler)
    const method = handler.choice('method', webhookMethods) ?? 'POST'
    const headers = readGiven(handler, 'headers')
    for (const [name, { value }] of Object.entries(headers)) {
      const at = `headers.${name.slice(0, 64)}`
      if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name)) handler.error(at, 'is not the name of a header')
      if (value.length > HEADER_CHARS_MAX) handler.error(at, `must be at most ${HEADER_CHARS_MAX} characters`)
    }
    const bodyTemplate = handler.text('body_template', { blank: true }) ?? null
    checkTemplate(handler, 'body_template', bodyTemplate)
    const retries = handler.number('retry', { integer: true, min: 0, max: 10 }) ?? 0
    return url === undefined ? null : { type: 'webhook', url, method, headers, bodyTemplate, retries, ...common }
  },
  container(handler, common) {
    const image = handler.text('image', { required: true, max: 512 })
    const command = readCommand(handler)
    if (command !== undefined) warnOfShellWords(handler, 'command', command, false)
    const env = readGiven(handler, 'env')
    const sizes = handler.map('resources', { known: ['cpu', 'memory', 'disk', 'timeout'] })
    const [cpu, memory, disk] = sizes ? [readCpu(sizes), readSize(sizes, 'memory'), readSize(sizes, 'disk')] : []
    const resources = {
      ...(cpu !== undefined && { cpuMillicores: cpu }),
      ...(memory !== undefined && { memoryBytes: memory }),
      ...(disk !== undefined && { diskBytes: disk }),
    }
    const timeoutMs = common.timeoutMs ?? (sizes === undefined ? null : readCommandTime(sizes, 'timeout'))
    if (image === undefined || command === undefined) return null
    return { type: 'container', image, command, env, resources, ...common, timeoutMs }
  },
  mcp_tool(handler, common) {
    const tool = handler.text('tool_name', { required: true, max: 256 })
    if (tool === undefined) return null
    return { type: 'mcp_tool', tool, arguments: handler.json('arguments') ?? {}, ...common }
  },
}

/** Where an output goes is the manifest's to say, never the output's. */
function readUrl(handler: Fields): string | undefined {
  const url = handler.text('url', { required: true, max: 2_048 })
  if (url === undefined) return undefined
  if (url.includes('{{')) handler.error('url', 'cannot be a template; write the address, and give values in the body')
  else if (!/^https?:\/\//i.test(url) || URL.parse(url) === null) {
    handler.error('url', 'must be an address that begins with https:// or http://')
  }
  return url
}

/** References are read here, from the manifest alone: a value that is rendered to one later is a text like any other. */
function readGiven(handler: Fields, key: 'headers' | 'env'): GivenValues {
  const input = envOf(handler.texts(key) ?? {})
  const templates = Object.entries(input).filter(([, { from }]) => from === 'literal')
  for (const [name, { value }] of templates) {
    const found = /\{\{\s*(secret|config):/.exec(value)?.[1]
    if (found !== undefined)
      handler.error(`${key}.${name.slice(0, 64)}`, `must be ${found}:NAME alone, without text around it`)
  }
  checkTemplates(handler, key, Object.fromEntries(templates.map(([name, { value }]) => [name, value])))
  return input
}
