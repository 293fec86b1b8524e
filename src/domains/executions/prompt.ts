import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Json } from '../../kernel/canonical-json.ts'
import type { AgentManifest } from '../agents/manifest.ts'
import { renderTemplate, textOf } from './template.ts'

/** One attempt and the reason for its rejection, for the next attempt and for AEGIS_ITERATION_HISTORY. */
export type PastAttempt = Readonly<{
  iteration: number
  output: string
  exit_code: number | null
  validation_failed: boolean
  validation_reason: string | null
  feedback?: string
  error?: string
}>
export type LoadedContext = Readonly<{ title: string; text: string }>

export type PromptParts = Readonly<{
  task: AgentManifest['task']
  intent: string | null
  input: Json
  contextOverrides: Readonly<Record<string, Json>>
  context: readonly LoadedContext[]
  iteration: number
  history: readonly PastAttempt[]
}>

/** Names that the loop sets; a caller may not set them. */
const reservedNames = ['instruction', 'input', 'iteration_number', 'previous_error'] as const

export function requireNoReserved(overrides: Readonly<Record<string, unknown>>): void {
  const taken = reservedNames.find((name) => Object.hasOwn(overrides, name))
  if (taken === undefined) return
  throw new AppError(
    'ERR_INVALID_INPUT',
    `context_overrides.${taken}: this name is reserved; choose a name other than ${reservedNames.join(', ')}`,
    { field: `context_overrides.${taken}` },
  )
}

/** The whole request of an iteration, input included, for the model and for every judge of the work. */
export const buildTask = (parts: PromptParts): string =>
  parts.task.promptTemplate === null ? plainPrompt(parts) : templatePrompt(parts, parts.task.promptTemplate)

/** The first message to the model. */
export function withAttempts(task: string, history: readonly PastAttempt[]): string {
  const attempts = attemptsSection(history)
  return attempts === '' ? task : `${attempts}\n\n${task}`
}

function templatePrompt(parts: PromptParts, template: string): string {
  const { task, intent, contextOverrides, iteration, history, context } = parts
  const last = history.at(-1)
  const input = chosenInput(parts.input)
  const values = {
    ...contextOverrides,
    instruction: task.instruction,
    intent: intent ?? '',
    input: input === null ? (intent ?? '') : input,
    iteration_number: iteration,
    previous_error: last === undefined || isAccepted(last) ? '' : reasonOf(last),
    context: contextSection(context),
  }
  return renderTemplate('spec.task.prompt_template', template, values, { texts: textOf(input, inputText(input)) })
}

function plainPrompt({ task, intent, input, context }: PromptParts): string {
  const chosen = chosenInput(input)
  const userText = chosen === null ? intent : inputText(chosen)
  if (task.instruction === '') return messageOf({ context, userText, rest: chosen === null ? '' : otherFields(chosen) })
  const sections = [
    task.instruction.trim(),
    contextSection(context),
    intent !== null && chosen !== null ? `Task: ${intent}` : '',
    userText === null ? '' : `User: ${userText}`,
    chosen === null ? '' : otherFields(chosen),
    'Agent:',
  ]
  return sections.filter((section) => section !== '').join('\n\n')
}

/** The caller's message, for an agent without a task of its own. */
const messageOf = (
  parts: Readonly<{ context: readonly LoadedContext[]; userText: string | null; rest: string }>,
): string =>
  [contextSection(parts.context), parts.userText ?? '', parts.rest].filter((section) => section !== '').join('\n\n')

/** The member that holds the actual input: a workflow and older callers nest it. */
export function wrapperOf(input: Json): 'workflow_input' | 'input' | undefined {
  if (!isFields(input)) return undefined
  return (['workflow_input', 'input'] as const).find((key) => input[key] !== undefined && input[key] !== null)
}

/** The actual input of the call. */
function chosenInput(input: Json): Json {
  if (!isFields(input)) return input
  const wrapper = wrapperOf(input)
  if (wrapper !== undefined) return input[wrapper]!
  return Object.keys(input).length === 0 ? null : input
}

/** `prompt` is the well-known field for the task's text. */
function inputText(input: Json): string {
  if (typeof input === 'string') return input
  if (isFields(input) && typeof input['prompt'] === 'string') return input['prompt']
  return JSON.stringify(input)
}

function otherFields(input: Json): string {
  if (!isFields(input) || typeof input['prompt'] !== 'string') return ''
  const { prompt: _displayed, ...rest } = input
  return Object.keys(rest).length === 0 ? '' : `Input: ${JSON.stringify(rest)}`
}

const contextSection = (context: readonly LoadedContext[]): string =>
  context.length === 0 ? '' : ['Context', ...context.map(({ title, text }) => `## ${title}\n${text}`)].join('\n\n')

function attemptsSection(history: readonly PastAttempt[]): string {
  if (history.length === 0) return ''
  const all = history.map(
    (attempt) =>
      `## Attempt ${attempt.iteration}\nOutput:\n${shortened(attempt.output)}\n${isAccepted(attempt) ? 'Accepted.' : `Not accepted because: ${reasonOf(attempt)}`}`,
  )
  const newest = newestWithin(all, limits.attemptsCharsMax, (text) => text.length)
  const left = all.length - newest.length
  const tries = left === 0 ? newest : [`[… ${left} earlier attempts left out …]`, ...newest]
  const next = isAccepted(history.at(-1)!) ? 'Continue from there' : 'Correct what was not accepted'
  return ['Previous attempts', ...tries, `${next}, then answer in full again.`].join('\n\n')
}

/** As many of the last items as fit, and always the very last. */
export function newestWithin<T>(all: readonly T[], most: number, sizeOf: (one: T) => number): readonly T[] {
  let total = 0
  const tooMany = all.findLastIndex((one) => {
    total += sizeOf(one)
    return total > most
  })
  return all.slice(Math.min(tooMany + 1, all.length - 1))
}

/** A fork may continue after an accepted iteration. */
const isAccepted = ({ validation_failed, error }: PastAttempt): boolean => !validation_failed && error === undefined

const reasonOf = (attempt: PastAttempt): string =>
  shortened(attempt.error ?? attempt.feedback ?? attempt.validation_reason ?? 'no reason was given')

/** The beginning and the end, which matter most. */
export function shortened(text: string, charsMax: number = limits.attemptCharsMax): string {
  if (text.length <= charsMax) return text
  const half = Math.floor(charsMax / 2)
  const left = text.length - 2 * half
  return `${text.slice(0, half).toWellFormed()}\n[… ${left} characters left out …]\n${text.slice(-half).toWellFormed()}`
}

const isFields = (value: Json): value is { readonly [key: string]: Json | undefined } =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
