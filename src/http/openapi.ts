import { errorCodes } from '../contract/error-codes.ts'
import type { Catalog, CatalogTool } from '../tools/runtime/catalog.ts'
import { restPaths, sealPaths } from './openapi-routes.ts'
import { successStatus } from './success-status.ts'

/**
 * The HTTP API as an OpenAPI 3.1 document, made only from the catalogue and the error codes: the same input gives the same
 * document, byte for byte.
 */
export type OpenApiDocument = Readonly<Record<string, unknown>> & Readonly<{ paths: Record<string, Json> }>
type Json = Readonly<Record<string, unknown>>

const json = (schema: Json) => ({ 'application/json': { schema } })
const schemaRef = (name: string) => ({ $ref: `#/components/schemas/${name}` })

export function buildOpenApi(catalog: Catalog, version: string): OpenApiDocument {
  const tools = catalog.tools.filter(
    ({ definition: { transports } }) => transports === undefined || transports.includes('rest'),
  )
  const toolsets = [...new Set(tools.map((tool) => tool.definition.toolset))]
  return {
    openapi: '3.1.0',
    info: {
      title: 'Castellan',
      version,
      summary: 'Every tool of the server as an HTTP call.',
      description:
        'Each tool is POST /v1/tools/{name} with its arguments as the body. The same tools are served over MCP at /mcp. ' +
        'A failed call answers with {"error":{"code","message","details"}}; the codes are in the schema ErrorCode.',
      license: { name: 'Apache License 2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ bearer: [] }, { apiKey: [] }, {}],
    tags: [
      { name: 'server-facts', description: 'What the server offers, and its health.' },
      ...toolsets.map((name) => ({ name, description: `Tools of the toolset ${name}.` })),
    ],
    paths: {
      ...factPaths(),
      ...restPaths(tools),
      ...sealPaths(),
      ...Object.fromEntries(tools.map((tool) => [`/v1/tools/${tool.name}`, { post: operation(tool) }])),
    },
    components: {
      schemas: { ...sharedSchemas(), ...Object.assign({}, ...tools.map(toolSchemas)) },
      responses: Object.fromEntries(errorStatuses().map((status) => [`Error${status}`, errorResponse(status)])),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'An API key, cst_…' },
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'X-Api-Key',
          description: 'The same key, in the header X-Api-Key.',
        },
      },
    },
  }
}

function operation(tool: CatalogTool): Json {
  const { definition, listed } = tool
  const success = successStatus(tool.name)
  const output = listed.outputSchema === undefined ? { type: 'object' } : schemaRef(`${tool.safeName}.output`)
  return {
    // An alias has the safe name of its tool.
    operationId: definition.aliasOf === undefined ? tool.safeName : `${tool.safeName}_alias`,
    tags: [definition.toolset],
    summary: definition.title,
    description: definition.description,
    requestBody: { required: tool.required.length > 0, content: json(schemaRef(`${tool.safeName}.input`)) },
    responses: {
      [success]: { description: success === 201 ? 'Created.' : 'Done.', content: json(output) },
      ...errorRefs(errorStatuses().filter((status) => status !== 405)),
    },
    'x-effect': definition.effect,
    'x-idempotent': listed.annotations.idempotentHint,
    'x-permission': definition.permission,
    ...(definition.alsoNeeds === undefined ? {} : { 'x-also-needs': definition.alsoNeeds }),
    'x-tier': definition.tier,
    ...(definition.actions === undefined ? {} : { 'x-actions': definition.actions }),
  }
}

function factPaths(): Record<string, Json> {
  const fact = (operationId: string, summary: string, more: Json) => ({
    get: { operationId, tags: ['server-facts'], summary, ...more },
  })
  const anyone = { security: [{}] }
  return {
    '/health': fact('getHealth', 'Health of the server', {
      ...anyone,
      responses: {
        200: {
          description: 'The server works; status says whether anything is wrong.',
          content: json(schemaRef('Health')),
        },
        503: { description: 'The state cannot be used.', content: json(schemaRef('Health')) },
      },
    }),
    '/health/live': fact('getLiveness', 'Whether the server answers', {
      ...anyone,
      responses: { 200: { description: 'The server answers.', content: json(schemaRef('Liveness')) } },
    }),
    '/health/ready': fact('getReadiness', 'Whether requests can be served', {
      ...anyone,
      responses: {
        200: {
          description: 'Requests can be served. The status is `degraded` if something is wrong.',
          content: json(schemaRef('Readiness')),
        },
        503: { description: 'The state cannot be used.', content: json(schemaRef('Readiness')) },
      },
    }),
    '/openapi.json': fact('getOpenApi', 'This document', {
      ...anyone,
      responses: { 200: { description: 'The document.', content: json({ type: 'object' }) } },
    }),
    '/v1/tools': fact('listTools', 'The tools that the caller may use', {
      parameters: [
        {
          name: 'tools',
          in: 'query',
          description: '`default`, `full`, or names of toolsets and tools separated by commas.',
          schema: { type: 'string' },
        },
        {
          name: 'names',
          in: 'query',
          description: '`safe` spells names with letters, digits, _ and - only.',
          schema: { type: 'string', enum: ['documented', 'safe'] },
        },
      ],
      responses: {
        200: { description: 'The list.', content: json(schemaRef('ToolList')) },
        ...errorRefs([400, 401, 403, 500, 503]),
      },
    }),
  }
}

const errorRefs = (statuses: readonly number[]): Json =>
  Object.fromEntries(statuses.map((status) => [status, { $ref: `#/components/responses/Error${status}` }]))

/** Statuses that a client can see: 499 is for a disconnected one. */
function errorStatuses(): number[] {
  const statuses = new Set<number>(Object.values(errorCodes).map((entry) => entry.httpStatus))
  return [...statuses].filter((status) => status !== 499).sort((left, right) => left - right)
}

function errorResponse(status: number): Json {
  const codes = Object.entries(errorCodes).filter(([, entry]) => entry.httpStatus === status)
  const narrowed = { properties: { error: { properties: { code: { enum: codes.map(([code]) => code) } } } } }
  const headers: Record<string, Json> = {
    401: { 'WWW-Authenticate': { description: 'How to authenticate.', schema: { type: 'string' } } },
    429: { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } },
    503: { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } },
  }
  return {
    description: codes.map(([code, entry]) => `${code}: ${entry.nextStep}`).join('\n\n'),
    ...(headers[status] === undefined ? {} : { headers: headers[status] }),
    content: json({ allOf: [schemaRef('Error'), narrowed] }),
  }
}

function sharedSchemas(): Record<string, Json> {
  const facts = Object.entries(errorCodes).map(([code, { kind, httpStatus, retry, nextStep }]) => [
    code,
    { kind, http_status: httpStatus, retry, next_step: nextStep },
  ])
  return {
    ErrorCode: { type: 'string', enum: Object.keys(errorCodes), 'x-error-codes': Object.fromEntries(facts) },
    Error: {
      type: 'object',
      required: ['error'],
      properties: {
        error: {
          type: 'object',
          required: ['code', 'message', 'details'],
          properties: {
            code: schemaRef('ErrorCode'),
            message: { type: 'string' },
            details: { type: 'object', additionalProperties: true },
          },
        },
      },
    },
    Health: {
      type: 'object',
      required: ['status', 'version', 'mode'],
      properties: {
        status: { type: 'string', enum: ['ok', 'degraded'] },
        version: { type: 'string' },
        mode: { type: 'string' },
      },
    },
    Liveness: {
      type: 'object',
      required: ['status', 'version'],
      properties: { status: { const: 'ok' }, version: { type: 'string' } },
    },
    Readiness: {
      type: 'object',
      required: ['status', 'version', 'mode'],
      properties: {
        status: { type: 'string', enum: ['ready', 'degraded', 'unavailable'] },
        version: { type: 'string' },
        mode: { type: 'string' },
      },
    },
    ToolList: {
      type: 'object',
      required: ['tools'],
      properties: {
        tools: {
          type: 'array',
          items: {
            type: 'object',
            required: ['name', 'title', 'description', 'inputSchema', 'annotations'],
            properties: {
              name: { type: 'string' },
              title: { type: 'string' },
              description: { type: 'string' },
              inputSchema: { type: 'object' },
              outputSchema: { type: 'object' },
              annotations: { type: 'object' },
            },
          },
        },
      },
    },
  }
}

/** A schema is in the document under its own name, so its internal references are rewritten. */
function toolSchemas({ safeName, listed }: CatalogTool): Record<string, unknown> {
  const named = (part: string, schema: Json) => ({
    [`${safeName}.${part}`]: movedRefs(schema, `#/components/schemas/${safeName}.${part}`),
  })
  return {
    ...named('input', listed.inputSchema),
    ...(listed.outputSchema === undefined ? {} : named('output', listed.outputSchema)),
  }
}

function movedRefs(value: unknown, root: string): unknown {
  if (Array.isArray(value)) return value.map((item) => movedRefs(item, root))
  if (typeof value !== 'object' || value === null) return value
  const moved = Object.entries(value).map(([key, member]) => [
    key,
    key === '$ref' && typeof member === 'string' && member.startsWith('#')
      ? root + member.slice(1)
      : movedRefs(member, root),
  ])
  return Object.fromEntries(moved)
}
