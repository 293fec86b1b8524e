import { type InputRequiredResult, isInputRequiredResult, type RequestOptions } from '@modelcontextprotocol/client'
import { AppError } from '../contract/app-error.ts'
import {
  type ClientAnswers,
  type ClientQuestion,
  type ClientQuestions,
  clientQuestions,
} from '../contract/calling-client.ts'
import { limits } from '../contract/limits.ts'

type Params = Readonly<Record<string, unknown>>

/**
 * Repeats a request with the client's answers until the server has no more questions. Servers of the revision 2026-07-28 ask in
 * this way; servers of earlier revisions ask while the request is in progress.
 */
export async function sendInRounds<Result>(
  params: Params,
  options: RequestOptions,
  send: (params: Params, options: RequestOptions) => Promise<Result>,
  ask: ((questions: ClientQuestions) => Promise<ClientAnswers>) | undefined,
): Promise<Result> {
  let next = params
  for (let round = 0; ; round++) {
    const answer = await send(next, { ...options, allowInputRequired: true })
    if (!isInputRequiredResult(answer)) return answer
    if (ask === undefined) throw cannotAsk()
    if (round === limits.mcpRoundsMax) throw tooManyRounds()
    const { requestState } = answer
    const questions = questionsIn(answer)
    const inputResponses = Object.keys(questions).length === 0 ? {} : await ask(questions)
    next = { ...params, inputResponses, ...(requestState !== undefined && { requestState }) }
  }
}

export function questionsIn({ inputRequests = {} }: InputRequiredResult): ClientQuestions {
  const entries = Object.entries(inputRequests as Readonly<Record<string, { method: string; params?: object }>>)
  return Object.fromEntries(
    entries.map(([key, { method, params }]): [string, ClientQuestion] => {
      if (!isKnown(method)) throw unknownQuestion()
      const { _meta, ...rest } = (params ?? {}) as Record<string, unknown>
      return [key, { method, params: rest }]
    }),
  )
}

const isKnown = (method: string): method is ClientQuestion['method'] =>
  (clientQuestions as readonly string[]).includes(method)

export const cannotAsk = (): AppError =>
  new AppError('ERR_UPSTREAM_UNAVAILABLE', 'The MCP server asks for input that the client of this call cannot give.')
const tooManyRounds = (): AppError =>
  new AppError(
    'ERR_UPSTREAM_UNAVAILABLE',
    `The MCP server asked for input more than ${limits.mcpRoundsMax} times in one call, which is the limit.`,
  )
const unknownQuestion = (): AppError =>
  new AppError('ERR_UPSTREAM_UNAVAILABLE', 'The MCP server asks for input of a kind that the protocol does not define.')
