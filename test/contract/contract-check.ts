/**
 * What a published tool promises its callers, as facts: the names, types, defaults and bounds of its parameters, and the
 * fields of its answer. A tool may offer more; it may not offer less, and it may not demand more.
 */
type FieldContract = Readonly<{
  types: readonly string[]
  required: boolean
  enum?: readonly unknown[]
  default?: unknown
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  maxItems?: number
}>
export type ToolContract = Readonly<{
  input: Readonly<Record<string, FieldContract>>
  output: readonly string[]
  outputOptional: readonly string[]
}>

type Schema = Readonly<Record<string, unknown>>

/** What a tool takes and what it answers when it succeeds. */
export type ToolSchemas = Readonly<{ input: Schema; output: Schema }>

const bounds = ['minimum', 'maximum', 'minLength', 'maxLength', 'maxItems'] as const

/** Each way in which a tool breaks its contract. */
export function contractFaults(contract: ToolContract, tool: ToolSchemas): string[] {
  const parameters = (tool.input['properties'] ?? {}) as Readonly<Record<string, Schema>>
  const required = (tool.input['required'] ?? []) as readonly string[]
  const answer = (tool.output['properties'] ?? {}) as Readonly<Record<string, Schema>>
  const always = (tool.output['required'] ?? []) as readonly string[]
  return [
    ...Object.entries(contract.input).flatMap(([name, field]) =>
      parameters[name] === undefined
        ? [`${name} is missing`]
        : fieldFaults(field, parameters[name]).map((fault) => `${name} ${fault}`),
    ),
    ...Object.keys({ ...contract.input, ...parameters })
      .filter((name) => required.includes(name) !== (contract.input[name]?.required ?? false))
      .map((name) => `${name} must be ${required.includes(name) ? 'optional' : 'required'}`),
    ...contract.output.filter((name) => !always.includes(name)).map((name) => `the answer must always have ${name}`),
    ...contract.outputOptional.filter((name) => !(name in answer)).map((name) => `the answer cannot have ${name}`),
    ...contract.outputOptional
      .filter((name) => always.includes(name))
      .map((name) => `the answer need not have ${name}`),
  ]
}

function fieldFaults(field: FieldContract, schema: Schema): string[] {
  const branches = branchesOf(schema)
  const values = branches.flatMap((branch) => [...((branch['enum'] ?? []) as unknown[]), branch['const']])
  const first = (word: string): unknown => branches.find((branch) => word in branch)?.[word]
  return [
    ...field.types
      .filter((type) => !branches.some((branch) => accepts(branch, type)))
      .map((type) => `must accept ${type}`),
    ...(field.enum ?? []).filter((value) => !values.includes(value)).map((value) => `must allow ${String(value)}`),
    ...('default' in field && first('default') !== field.default ? [`must default to ${String(field.default)}`] : []),
    ...bounds
      .filter((bound) => field[bound] !== undefined && first(bound) !== field[bound])
      .map((bound) => `must declare ${bound} ${field[bound]}`),
  ]
}

const branchesOf = (schema: Schema): Schema[] => [
  schema,
  ...['anyOf', 'oneOf', 'allOf'].flatMap((word) => ((schema[word] ?? []) as Schema[]).flatMap(branchesOf)),
]

function accepts(schema: Schema, type: string): boolean {
  const numbers = ['number', 'integer']
  const own = [schema['type'], ...((schema['enum'] ?? []) as unknown[]).map((value) => typeof value)].flat()
  return own.includes(type) || (numbers.includes(type) && own.some((word) => numbers.includes(word as string)))
}
