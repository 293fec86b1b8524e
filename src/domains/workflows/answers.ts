import { AppError } from '../../contract/app-error.ts'
import { agreesWith, type StateResult } from './conditions.ts'
import { applyResult, type Position } from './interpreter.ts'
import type { HumanState, WorkflowManifest } from './manifest-schema.ts'

/** The answers that select a transition of a Human state; null if they cannot be listed, because any text may. */
export function acceptedAnswers({ transitions }: Pick<HumanState, 'transitions'>): readonly string[] | null {
  const types = transitions.map(({ condition }) => condition.type)
  if (types.length === 0 || types.some((type) => ['always', 'on_success', 'custom'].includes(type))) return null
  const listed = transitions.flatMap(({ condition }) => {
    if (condition.type === 'input_equals') return condition.value.trim()
    if (condition.type === 'input_equals_yes') return 'yes'
    return condition.type === 'input_equals_no' ? 'no' : []
  })
  return [...new Set(listed)]
}

/**
 * Maps an answer to the one that the state accepts: the exact text if it selects a transition, otherwise the closest one,
 * ignoring case, white space, and synonyms of yes and no. Throws if no transition matches: the run keeps waiting. An empty answer
 * without feedback is more often a mistake than an answer, so a transition that takes anything does not take it.
 */
export function understoodAnswer(manifest: WorkflowManifest, position: Position, input: StateResult): string {
  const text = String(input['response'] ?? '')
  const state = manifest.states.get(position.state)
  if (state?.kind !== 'Human') return text
  const isEmpty = text.trim() === '' && String(input['feedback'] ?? '').trim() === ''
  const considered = isEmpty ? withoutCatchAll(manifest, position.state, state) : manifest
  const leadsOn = (response: string): boolean => {
    if (considered === undefined) return false
    const move = applyResult(considered, position, { result: { ...input, response } })
    return move.kind === 'go' || move.failure?.violation !== 'WorkflowNoTransitionMatched'
  }
  if (leadsOn(text)) return text
  const listed = acceptedAnswers(state) ?? []
  if (isEmpty && listed.length === 0) throw emptyAnswer(position.state)
  const alike = listed.filter((answer) => plain(answer) === plain(text))
  const meant = alike.length > 0 ? alike : listed.filter((answer) => agreesWith(answer, plain(text)))
  if (meant.length === 1 && leadsOn(meant[0]!)) return meant[0]!
  const choices = listed.map((answer) => JSON.stringify(answer.slice(0, 64).toWellFormed())).join(', ')
  throw new AppError(
    'ERR_INVALID_INPUT',
    `response: no transition of the state ${position.state} accepts this answer; ${listed.length === 0 ? 'its conditions are in the manifest (aegis.workflow.export)' : `answer with one of ${choices}`}. The run keeps waiting.`,
    { field: 'response', state: position.state, accepted_answers: listed },
  )
}

const catchAlls: readonly string[] = ['always', 'on_success']

/** Undefined if no transition remains: without any, a state would end the run with every answer. */
function withoutCatchAll(manifest: WorkflowManifest, name: string, state: HumanState): WorkflowManifest | undefined {
  const transitions = state.transitions.filter(({ condition }) => !catchAlls.includes(condition.type))
  if (transitions.length === 0) return undefined
  return { ...manifest, states: new Map(manifest.states).set(name, { ...state, transitions }) }
}

const emptyAnswer = (state: string): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    `response: the answer is empty, and no transition of the state ${state} accepts an empty one; write an answer. The run keeps waiting.`,
    { field: 'response', state, accepted_answers: [] },
  )

const plain = (text: string): string =>
  text
    .normalize('NFKC')
    .trim()
    .toLowerCase()
    .replaceAll(/\s+/g, ' ')
    .replace(/[.!]+$/, '')
