import { z } from 'zod'
import type { UpstreamTool } from '../../contract/upstream-tools.ts'
import {
  declarationOf,
  type LoadedTool,
  type ToolDeclaration,
  type ToolDefinition,
  type Toolset,
} from './define-tool.ts'
import { findByName, indexByName } from './name-index.ts'
import type { PreparedTool } from './prepared-tools.ts'
import { buildSafeNames } from './safe-names.ts'
import { createSpelling, type Spelling } from './spelling.ts'
import type { ListedTool } from './tool-host.ts'

/**
 * All tools, with everything that can be computed once: the schemas that MCP lists, the accepted and required parameter names,
 * the names under which a tool can be called. Names are resolved at start, and an error in them stops the program. What follows
 * from the schemas of a tool is computed when it is first needed, because most tools never are.
 */
export type CatalogTool = Readonly<{
  name: string
  safeName: string
  definition: ToolDeclaration
  /** The upstream tool; absent for ours. */
  upstream?: UpstreamTool
  /** Its server says that it only reads; nobody has checked that. Absent for ours. */
  declaredReadOnly?: boolean
  /** The id of the agent to which it delegates tasks; absent for every other tool. */
  delegatesTo?: string
  /** The code that a call needs beside the declaration; a promise only until it has been loaded. */
  load(): LoadedTool | Promise<LoadedTool>
  parameters: ReadonlySet<string>
  required: readonly string[]
  nullable: ReadonlySet<string>
  listed: ListedTool
  /** Like `listed`, with safe names in its texts, for clients that see safe names. */
  readonly listedSafe: ListedTool
}>

export type Catalog = Readonly<{
  tools: readonly CatalogTool[]
  /** By documented name, by safe name, or with the prefix of one of the documented contracts. */
  find(name: string): CatalogTool | undefined
  names: readonly string[]
  /** Texts for callers that see safe names. */
  spelling: Spelling
}>

/** From the definitions themselves. */
export function createCatalog(toolsets: Readonly<Partial<Record<Toolset, readonly ToolDefinition[]>>>): Catalog {
  const definitions = Object.entries(toolsets).flatMap(([toolset, list]) =>
    list.map((definition) => {
      if (definition.toolset !== toolset) throw new Error(`${definition.name} says it belongs to ${definition.toolset}`)
      return definition
    }),
  )
  const safeNames = buildSafeNames(
    definitions.map((definition) => definition.name),
    Object.fromEntries(definitions.flatMap(({ name, aliasOf }) => (aliasOf === undefined ? [] : [[name, aliasOf]]))),
  )
  return catalogOf(
    definitions.map((definition) => {
      const listed = once(() => listedTool(definition))
      const nullable = once(() => propertyNames(listed()).filter((key) => acceptsNull(definition.input, key)))
      return {
        name: definition.name,
        safeName: safeNames.safeNameOf(definition.name)!,
        definition: declarationOf(definition),
        load: () => definition,
        listed,
        nullable,
      }
    }),
  )
}

type LoadToolset = (toolset: Toolset) => Promise<readonly ToolDefinition[]>

/** From the prepared data of the definitions; a toolset is loaded when one of its tools is first called. */
export function createPreparedCatalog(tools: readonly PreparedTool[], loadToolset: LoadToolset): Catalog {
  return catalogOf(
    tools.map(({ nullable, listed, ...tool }) => ({
      ...tool,
      load: loadedOnce(tool, loadToolset),
      listed: () => listed,
      nullable: () => nullable,
    })),
  )
}

function loadedOnce({ name, definition }: Pick<PreparedTool, 'name' | 'definition'>, loadToolset: LoadToolset) {
  let loaded: ToolDefinition | undefined
  return () => {
    if (loaded !== undefined) return loaded
    return loadToolset(definition.toolset).then((definitions) => {
      const found = definitions.find((one) => one.name === name)
      // The definition that runs must equal the one that was judged.
      if (found === undefined || JSON.stringify(declarationOf(found)) !== JSON.stringify(definition)) {
        throw new Error(`prepared-tools.json does not agree with the definition of ${name}; run npm run gen`)
      }
      loaded = found
      return found
    })
  }
}

type ToolSource = Pick<CatalogTool, 'name' | 'safeName' | 'definition' | 'load'> &
  Readonly<{ listed(): ListedTool; nullable(): readonly string[] }>

function catalogOf(sources: readonly ToolSource[]): Catalog {
  const spelling = createSpelling(sources)
  const tools = sources.map((source) => new OwnTool(source, spelling))
  const byName = indexByName(tools)
  return { tools, names: tools.map((tool) => tool.name), spelling, find: (name) => findByName(byName, name) }
}

type ObjectSchema = Readonly<Record<string, unknown>> & { readonly type: 'object' }

const propertyNames = ({ inputSchema }: ListedTool): readonly string[] => Object.keys(inputSchema['properties'] ?? {})

/** A class, because an object with getters of its own has a hidden class of its own, and there are many tools. */
class OwnTool implements CatalogTool {
  readonly name: string
  readonly safeName: string
  readonly definition: ToolDeclaration
  readonly load: CatalogTool['load']
  readonly #source: ToolSource
  readonly #spelling: Spelling
  #parameters: ReadonlySet<string> | undefined
  #nullable: ReadonlySet<string> | undefined
  #listedSafe: ListedTool | undefined

  constructor(source: ToolSource, spelling: Spelling) {
    this.name = source.name
    this.safeName = source.safeName
    this.definition = source.definition
    this.load = source.load
    this.#source = source
    this.#spelling = spelling
  }

  get parameters(): ReadonlySet<string> {
    this.#parameters ??= new Set(propertyNames(this.listed))
    return this.#parameters
  }

  get required(): readonly string[] {
    return (this.listed.inputSchema['required'] ?? []) as string[]
  }

  get nullable(): ReadonlySet<string> {
    this.#nullable ??= new Set(this.#source.nullable())
    return this.#nullable
  }

  get listed(): ListedTool {
    return this.#source.listed()
  }

  get listedSafe(): ListedTool {
    this.#listedSafe ??= { ...this.#spelling.schema(this.listed), name: this.safeName }
    return this.#listedSafe
  }
}

const listedTool = (definition: ToolDefinition): ListedTool => ({
  name: definition.name,
  title: definition.title,
  description: definition.description,
  inputSchema: objectSchema(definition.input, 'input', definition.name),
  ...(definition.output === undefined
    ? {}
    : { outputSchema: orFailure(objectSchema(definition.output, 'output', definition.name)) }),
  annotations: annotationsOf(definition),
})

function once<T extends object>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    made ??= make()
    return made
  }
}

function objectSchema(schema: z.ZodType, io: 'input' | 'output', name: string): ObjectSchema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'throw',
  }) as Record<string, unknown>
  if (rest['type'] !== 'object') throw new Error(`the ${io} of ${name} must be an object`)
  return portable(rest) as ObjectSchema
}

/** Some clients map schemas onto dialects with one type per schema and without an empty schema, so both are rewritten. */
function portable<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(portable) as T
  if (typeof schema !== 'object' || schema === null) return schema
  const members = Object.fromEntries(Object.entries(schema).map(([key, member]) => [key, portable(member)]))
  const { type, additionalProperties } = members
  if (Array.isArray(type)) {
    delete members['type']
    members['anyOf'] = type.map((single: unknown) => ({ type: single }))
  }
  if (typeof additionalProperties === 'object' && Object.keys(additionalProperties as object).length === 0) {
    members['additionalProperties'] = true
  }
  return members as T
}

type Property = Readonly<Record<string, unknown>>

/**
 * Admits the error envelope beside the answer, and warnings in it, because clients check both against the schema. If the answer
 * has its own `error`, the property admits the answer's values and the envelope.
 */
function orFailure(schema: ObjectSchema): ObjectSchema {
  const {
    required = [],
    properties = {},
    ...rest
  } = schema as ObjectSchema & { required?: string[]; properties?: Record<string, Property> }
  return {
    ...rest,
    properties: {
      warnings: { type: 'array', items: { type: 'string' } },
      ...properties,
      error: errorProperty(properties['error']),
    },
    anyOf: [{ required }, { required: ['error'] }],
  }
}

function errorProperty(own: Property | undefined): Property {
  if (own === undefined) return { type: 'object', description: 'Only this, when the call failed.' }
  const { description, ...shape } = own
  const { anyOf: variants = [shape] } = shape as { anyOf?: readonly Property[] }
  return {
    anyOf: [...variants, { type: 'object', description: 'Only this, when the call itself failed.' }],
    ...(description === undefined ? {} : { description }),
  }
}

function acceptsNull(schema: z.ZodType, key: string): boolean {
  const member = schema instanceof z.ZodObject ? (schema.shape as Record<string, z.ZodType>)[key] : undefined
  return member?.safeParse(null).success ?? false
}

const annotationsOf = (definition: ToolDefinition): ListedTool['annotations'] => ({
  title: definition.title,
  readOnlyHint: definition.effect === 'read',
  destructiveHint: definition.effect === 'delete' || (definition.effect === 'external' && !definition.harmless),
  idempotentHint: definition.effect === 'read' || definition.idempotent,
  openWorldHint: (definition.effect === 'external' && !definition.harmless) || definition.openWorld === true,
})
