import { createRequire } from 'node:module'
import type { ValidateFunction } from 'ajv/dist/2020.js'
import { displayedAnswer } from '../../src/mcp/displayed-answer.ts'
import { answers, type PublishedAnswer } from '../../src/tools/runtime/answer-channel.ts'
import type { ToolAnswer } from '../../src/tools/runtime/tool-host.ts'

/**
 * Holds every answer that leaves the pipeline, success or failure, against the JSON Schema that is listed for its tool,
 * as a client would. `answer-check-setup.ts` does so in the process of a test. A program that a test starts tells its answers
 * by `--import` of `answer-check-preload.mjs`, in lines of the file that TOOL_ANSWERS_FILE names. What does not fit fails the test.
 */
export const ANSWERS_FILE_VARIABLE = 'TOOL_ANSWERS_FILE'
const DISPLAYED_CHARS_MAX = 2_000

type Validator = Readonly<{ compile(schema: object): ValidateFunction }>
let validator: Validator | undefined
const compiled = new WeakMap<object, ValidateFunction>()
const compiledByDigest = new Map<string, ValidateFunction>()

/** Files of tests without an answer do not pay for it. */
function compile(schema: object): ValidateFunction {
  validator ??= loadValidator()
  return validator.compile(schema)
}

function loadValidator(): Validator {
  const require = createRequire(import.meta.url)
  const { Ajv2020 } = require('ajv/dist/2020.js') as typeof import('ajv/dist/2020.js')
  const addFormats = require('ajv-formats') as unknown as (ajv: object) => void
  const ajv = new Ajv2020({ strict: false, allErrors: false })
  addFormats(ajv)
  return ajv
}

/** What is wrong with an answer, if anything is. */
export function answerFault({ tool, answer }: PublishedAnswer): string | undefined {
  const schema = tool?.listed.outputSchema
  // What another server answers is held against its schema by the client alone.
  if (schema === undefined || tool?.definition.raw === true) return undefined
  const validate = compiled.get(schema) ?? compile(schema)
  compiled.set(schema, validate)
  return faultOf(tool!.name, validate, answer)
}

function faultOf(tool: string, validate: ValidateFunction, answer: ToolAnswer): string | undefined {
  // As MCP clients get it, with the warnings in it; other transports say those apart.
  const { json } = displayedAnswer(answer, 'http')
  if (validate(JSON.parse(answer.json)) && (json === answer.json || validate(JSON.parse(json)))) return undefined
  const reasons = (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || '/'} ${message}`)
  return `${tool}: ${reasons.join('; ')}: ${json.slice(0, DISPLAYED_CHARS_MAX)}`
}

type ToldAnswer = Readonly<{
  tool: string
  /** Of the schema, which comes with the first answer of a program. */
  digest: string
  schema?: string
  json: string
  warnings?: readonly string[]
}>

/** What is wrong with an answer that a program told. */
export function toldFault(line: string): string | undefined {
  const { tool, digest, schema, json, warnings } = JSON.parse(line) as ToldAnswer
  if (schema !== undefined && !compiledByDigest.has(digest)) compiledByDigest.set(digest, compile(JSON.parse(schema)))
  const validate = compiledByDigest.get(digest)
  if (validate === undefined) throw new Error(`an answer of ${tool} came without its schema`)
  const answer = { json, isError: false, ...(warnings && { warnings, output: JSON.parse(json) as unknown }) }
  return faultOf(tool, validate, answer)
}

let isWatching = false
let note: (fault: string) => void = () => {}

/** Told of each fault from now on. Several files of tests may run in one process, one after the other. */
export function watchAnswers(onFault: (fault: string) => void): void {
  note = onFault
  if (isWatching) return
  isWatching = true
  answers.subscribe((message) => {
    const fault = answerFault(message as PublishedAnswer)
    if (fault !== undefined) note(fault)
  })
}

/** What a program that a test starts has in its environment to be watched. */
export function watchedEnvironment(): Readonly<Record<string, string>> {
  const answersFile = process.env[ANSWERS_FILE_VARIABLE]
  if (answersFile === undefined) return {}
  const preload = new URL('answer-check-preload.mjs', import.meta.url).href
  return { NODE_OPTIONS: `--import ${preload}`, [ANSWERS_FILE_VARIABLE]: answersFile }
}
