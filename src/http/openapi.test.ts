import { describe, expect, it } from 'vitest'
import { errorCodes } from '../contract/error-codes.ts'
import { loadAllTools } from '../tools/index.ts'
import { createCatalog } from '../tools/runtime/catalog.ts'
import { buildOpenApi } from './openapi.ts'

const allTools = await loadAllTools()

type Node = Record<string, unknown>
type Operation = {
  operationId: string
  requestBody?: { required: boolean; content: { 'application/json': { schema: { $ref: string } } } }
  responses: Record<string, Node>
}

const catalog = createCatalog(allTools)
const document = JSON.parse(JSON.stringify(buildOpenApi(catalog, '1.2.3'))) as {
  openapi: string
  info: Node
  paths: Record<string, Record<string, Operation>>
  components: Record<string, Record<string, Node>>
}
const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods))

function* nodesOf(value: unknown): Generator<Node> {
  if (typeof value !== 'object' || value === null) return
  if (!Array.isArray(value)) yield value as Node
  for (const member of Object.values(value)) yield* nodesOf(member)
}

function resolve(ref: string): unknown {
  const steps = ref.slice(2).split('/')
  return steps.reduce<unknown>((at, step) => (at as Node | undefined)?.[step], document)
}

describe('the OpenAPI document', () => {
  it('has the parts that the specification demands', () => {
    expect(document.openapi).toMatch(/^3\.1\.\d+$/)
    expect(document.info).toMatchObject({ title: 'Castellan', version: '1.2.3' })
    for (const name of Object.values(document.components).flatMap(Object.keys)) expect(name).toMatch(/^[\w.-]+$/)
    for (const operation of operations) {
      for (const [status, response] of Object.entries(operation.responses)) {
        expect(status).toMatch(/^[1-5]\d\d$/)
        expect('$ref' in response || typeof response['description'] === 'string').toBe(true)
      }
    }
  })

  it('gives every operation an id of its own', () => {
    const ids = operations.map((operation) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('has only references that lead somewhere', () => {
    const refs = [...nodesOf(document)].map((node) => node['$ref']).filter((ref) => typeof ref === 'string')
    expect(refs.length).toBeGreaterThan(0)
    for (const ref of refs) {
      expect(ref.startsWith('#/'), ref).toBe(true)
      expect(resolve(ref), ref).toBeTypeOf('object')
    }
  })

  it('has every tool, with the schemas that MCP lists', () => {
    for (const tool of catalog.tools) {
      if (tool.definition.transports?.includes('rest') === false) continue
      const operation = document.paths[`/v1/tools/${tool.name}`]?.['post']
      expect(operation, tool.name).toBeDefined()
      const input = resolve(operation!.requestBody!.content['application/json'].schema.$ref) as Node
      expect(Object.keys(input['properties'] as Node)).toEqual([...tool.parameters])
      expect(operation!.requestBody!.required).toBe(tool.required.length > 0)
      const success = (operation!.responses['200'] ?? operation!.responses['201']) as unknown as {
        content: { 'application/json': { schema: Node } }
      }
      const { schema } = success.content['application/json']
      if (tool.listed.outputSchema !== undefined) {
        expect((resolve(schema['$ref'] as string) as Node)['type']).toBe('object')
      }
    }
  })

  it('promises the statuses of the documents', () => {
    const created = operations.filter((operation) => '201' in operation.responses).map(({ operationId }) => operationId)
    expect(created).toEqual(expect.arrayContaining(['thought_record', 'audit_session_start']))
    expect(document.paths['/v1/tools/task_create']!['post']!.responses).toHaveProperty('200')
  })

  it('names every code of the register that a client can meet, under its status', () => {
    for (const [code, { httpStatus }] of Object.entries(errorCodes)) {
      if (httpStatus === 499) continue
      expect(JSON.stringify(document.components['responses']![`Error${httpStatus}`]), code).toContain(`"${code}"`)
    }
  })

  it('is the same whenever it is made', () => {
    expect(JSON.stringify(buildOpenApi(createCatalog(allTools), '1.2.3'))).toBe(JSON.stringify(document))
  })
})
