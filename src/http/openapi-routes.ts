import type { CatalogTool } from '../tools/runtime/catalog.ts'
import { type RestRow, restRows, streamRows } from './rest-table.ts'

/** The addresses of the OpenAPI document that are not named after tools. */
type Json = Readonly<Record<string, unknown>>
type Paths = Record<string, Record<string, Json>>

const object = { 'application/json': { schema: { type: 'object' } } }
const refusals = Object.fromEntries(
  [400, 401, 403, 404, 409, 429, 500, 503].map((status) => [status, { $ref: `#/components/responses/Error${status}` }]),
)
const parametersOf = (path: string): Json[] =>
  [...path.matchAll(/\{([a-z]+)(?:\.\.\.)?\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
const idOf = (method: string, path: string): string =>
  `${method.toLowerCase()}${path
    .replace('/v1', '')
    .split(/[/{}.-]+/)
    .map((part) => `${part.charAt(0).toUpperCase()}${part.slice(1)}`)
    .join('')}`

/** Rows whose tools exist, each with a pointer to the tool that describes it. */
export function restPaths(tools: readonly CatalogTool[]): Paths {
  const byName = new Map(tools.map((tool) => [tool.name, tool]))
  const paths: Paths = {}
  const add = (method: string, path: string, operation: Json): void => {
    const displayed = path.replace('...}', '}')
    paths[displayed] = { ...paths[displayed], [method.toLowerCase()]: operation }
  }
  for (const row of restRows) {
    const names = toolsOf(row)
    const tool = byName.get(names[0]!)
    if (tool === undefined || names.some((name) => !byName.has(name))) continue
    add(row.method, row.path, restOperation(row, tool, names))
  }
  for (const { path, tool, rows } of streamRows) {
    if (byName.has(tool)) add('GET', path, streamOperation(path, tool, rows === 'agent'))
  }
  return paths
}

const toolsOf = ({ tool, tools }: RestRow): readonly string[] => tools ?? [tool as string]

const answerOf = ({ shape }: RestRow): Json => ({
  'application/json': { schema: shape === undefined ? { type: 'object' } : {} },
})
const fileAnswer = {
  'text/plain': { schema: { type: 'string' } },
  'application/octet-stream': { schema: { type: 'string', format: 'binary' } },
}

function restOperation(row: RestRow, tool: CatalogTool, names: readonly string[]): Json {
  const takesBody = row.method === 'POST' || row.method === 'PATCH'
  return {
    operationId: idOf(row.method, row.path),
    tags: [tool.definition.toolset],
    summary: tool.definition.title,
    description: `The same as ${names.map((name) => `\`${name}\``).join(' or ')}: see POST /v1/tools/${tool.name}.`,
    parameters: parametersOf(row.path),
    ...(takesBody ? { requestBody: { required: false, content: object } } : {}),
    responses: {
      [row.status ?? 200]: {
        description: 'Done.',
        content: row.file === undefined ? answerOf(row) : fileAnswer,
      },
      ...refusals,
      ...(row.failureStatus === undefined ? {} : { 422: refusals[400] }),
    },
    'x-tool': names.length === 1 ? names[0] : names,
  }
}

const streamOperation = (path: string, tool: string, isOfAgent: boolean): Json => ({
  operationId: idOf('GET', path),
  tags: [isOfAgent ? 'agents' : 'executions'],
  summary: isOfAgent ? 'Follow an agent' : 'Follow a run',
  description: `Past and new events${isOfAgent ? ' in the executions of an agent' : ', up to the end of the run'}, as server-sent events. Requires the same permission as \`${tool}\`.`,
  parameters: [
    ...parametersOf(path),
    {
      name: 'Last-Event-ID',
      in: 'header',
      description: 'The id of the last event that the client received.',
      schema: { type: 'string' },
    },
    {
      name: 'follow',
      in: 'query',
      description: '`false` ends the stream after the past events.',
      schema: { type: 'boolean', default: true },
    },
    {
      name: 'verbose',
      in: 'query',
      description: '`true` includes the full details of every event, whatever their length.',
      schema: { type: 'boolean', default: false },
    },
  ],
  responses: {
    200: { description: 'The stream.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
    ...refusals,
  },
})

const sealAnswer = { description: 'A JSON-RPC error; the header x-castellan-error-code has its name.', content: object }

export function sealPaths(): Paths {
  const tags = ['identity']
  return {
    '/v1/seal/attest': {
      post: {
        operationId: 'sealAttest',
        tags,
        summary: 'Start a session for signed calls',
        requestBody: { required: true, content: object },
        responses: {
          200: { description: 'The session and its token.', content: object },
          ...refusals,
        },
      },
    },
    '/v1/seal/invoke': {
      post: {
        operationId: 'sealInvoke',
        tags,
        summary: 'Make a signed call',
        description: 'The envelope is the credential: no key is sent.',
        security: [{}],
        requestBody: { required: true, content: object },
        responses: {
          200: { description: 'A JSON-RPC result with the answer of the tool.', content: object },
          ...Object.fromEntries(
            [400, 401, 403, 404, 409, 413, 422, 429, 500, 502, 503].map((status) => [status, sealAnswer]),
          ),
        },
      },
    },
    '/v1/seal/tools': {
      get: {
        operationId: 'sealTools',
        tags,
        summary: 'The tools of a security context',
        parameters: [{ name: 'security_context', in: 'query', schema: { type: 'string' } }],
        responses: {
          200: { description: 'The list.', content: object },
          ...refusals,
        },
      },
    },
  }
}
