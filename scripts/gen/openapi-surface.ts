import { isDeepStrictEqual } from 'node:util'
import { buildOpenApi } from '../../src/http/openapi.ts'
import type { Catalog } from '../../src/tools/runtime/catalog.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * The OpenAPI document without what the snapshots of the tools and of the errors say already: texts, hints, schemas and the
 * facts of each error. What all operations of tools have in common stands once, under `x-every-tool`.
 */
export function openApiSurface(catalog: Catalog, version: string): Json {
  const document = buildOpenApi(catalog, version)
  const { schemas, ...components } = document['components'] as Json & { schemas: Json }
  const ofTools = new Set(catalog.tools.flatMap(({ safeName }) => [`${safeName}.input`, `${safeName}.output`]))
  const operations = new Map<string, Json>(
    catalog.tools.flatMap(({ name }) => {
      const operation = document.paths[`/v1/tools/${name}`]?.['post']
      return operation === undefined ? [] : [[`/v1/tools/${name}`, withoutTool(operation as Json)]]
    }),
  )
  const common = commonOf([...operations.values()].map(({ responses }) => responses as Json))
  const paths = Object.entries(document.paths).map(([path, item]) => {
    const operation = operations.get(path)
    if (operation === undefined) return [path, item]
    const own = Object.entries(operation['responses'] as Json).filter(([status]) => !(status in common))
    const responses = Object.fromEntries(own.map(([status, response]) => [status, (response as Json)['description']]))
    return [path, { post: { ...operation, responses } }]
  })
  return {
    ...document,
    paths: Object.fromEntries(paths),
    components: {
      ...components,
      schemas: withoutErrors(Object.fromEntries(Object.entries(schemas).filter(([name]) => !ofTools.has(name)))),
    },
    'x-every-tool': { responses: common },
  }
}

/** `surface/tools` has the title, the description, what is required and what may be repeated. */
function withoutTool(operation: Json): Json {
  const { summary: _1, description: _2, requestBody: _3, 'x-idempotent': _4, ...rest } = operation
  return rest
}

/** `surface/errors.json` has the kind, the status and the next step of each code. */
function withoutErrors({ ErrorCode, ...schemas }: Json): Json {
  const { 'x-error-codes': _, ...code } = ErrorCode as Json
  return { ErrorCode: code, ...schemas }
}

function commonOf(all: readonly Json[]): Json {
  const [first = {}, ...others] = all
  const shared = Object.entries(first).filter(([key, value]) =>
    others.every((other) => isDeepStrictEqual(other[key], value)),
  )
  return Object.fromEntries(shared)
}
