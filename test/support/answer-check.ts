import { appendFileSync, closeSync, constants, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { ValidateFunction } from 'ajv/dist/2020.js'
import { displayedAnswer } from '../../src/mcp/displayed-answer.ts'
import { answers, type PublishedAnswer } from '../../src/tools/runtime/answer-channel.ts'

/**
 * Holds every answer that leaves the pipeline, success or failure, against the JSON Schema that is listed for its tool,
 * as a client would. In the process of a test it is started by `answer-check-setup.ts`; in a program that a test starts,
 * by `--import` of `answer-check-preload.mjs`. What does not fit goes into the file that ANSWER_FAULTS_FILE names, and fails the test.
 */
export const FAULTS_FILE_VARIABLE = 'ANSWER_FAULTS_FILE'
const DISPLAYED_CHARS_MAX = 2_000

type Validator = Readonly<{ compile(schema: object): ValidateFunction }>
let validator: Validator | undefined
const compiled = new WeakMap<object, ValidateFunction>()

/** Programs that answer nothing do not pay for it. */
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
  let validate = compiled.get(schema)
  if (validate === undefined) {
    validator ??= loadValidator()
    validate = validator.compile(schema)
    compiled.set(schema, validate)
  }
  // As MCP clients get it, with the warnings in it; other transports say those apart.
  const { json } = displayedAnswer(answer, 'http')
  if (validate(JSON.parse(answer.json)) && (json === answer.json || validate(JSON.parse(json)))) return undefined
  const reasons = (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath || '/'} ${message}`)
  return `${tool!.name}: ${reasons.join('; ')}: ${json.slice(0, DISPLAYED_CHARS_MAX)}`
}

/** Also for `answer-check-preload.mjs`, which loads this file when a program gives its first answer. */
export function recordFault(faultsFile: string, message: unknown): void {
  const fault = answerFault(message as PublishedAnswer)
  if (fault === undefined) return
  // Another user may be writing: the file is there already, and is never made here.
  const file = openSync(faultsFile, constants.O_WRONLY | constants.O_APPEND)
  appendFileSync(file, `${JSON.stringify(fault)}\n`)
  closeSync(file)
}

let watchedFile: string | undefined

/** Into this file from now on. Several files of tests may run in one process, one after the other. */
export function watchAnswers(faultsFile: string): void {
  if (watchedFile === undefined) answers.subscribe((message) => recordFault(watchedFile!, message))
  watchedFile = faultsFile
}

/** What a program that a test starts has in its environment to be watched. */
export function watchedEnvironment(): Readonly<Record<string, string>> {
  const faultsFile = process.env[FAULTS_FILE_VARIABLE]
  if (faultsFile === undefined) return {}
  const preload = new URL('answer-check-preload.mjs', import.meta.url).href
  return { NODE_OPTIONS: `--import ${preload}`, [FAULTS_FILE_VARIABLE]: faultsFile }
}
