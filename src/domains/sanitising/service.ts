import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { Sanitised, SanitiseRequest, Sanitiser } from '../../contract/sanitiser.ts'
import { sha256Hex } from '../../kernel/hash.ts'
import { chosenAlias, type Models } from '../executions/model.ts'
import {
  mainSystem,
  type Question,
  quarantinedQuestion,
  quarantineSystem,
  questionRequest,
  readChoice,
  readQuestion,
  summaryRequest,
  summarySystem,
} from './rules.ts'

type SanitisingDeps = Readonly<{
  models: Pick<Models, 'generate' | 'requireAlias'>
  /** Questions for one result. */
  roundsMax: number
}>

const MAIN = 'dual-llm-main'
const QUARANTINE = 'dual-llm-quarantine'

/**
 * Two models. The main one never sees the result: it asks questions with options in its own words. The quarantined one sees the
 * result and answers with the number of an option. So an instruction in the result can at most choose among harmless sentences.
 */
export function createSanitiser({ models, roundsMax }: SanitisingDeps): Sanitiser {
  /** The oldest are dropped first. Concurrent callers each ask the models: one may leave, and the other stay. */
  const known = new Map<string, Sanitised>()

  async function ask(request: SanitiseRequest, alias: string, system: string, text: string): Promise<string> {
    const answer = await models.generate({
      alias: chosenAlias(models, alias),
      principal: request.principal,
      purpose: 'sanitiser',
      system,
      messages: [{ role: 'user', text }],
      tools: [],
      temperature: 0,
      maxOutputTokens: limits.sanitiserOutputTokensMax,
      timeoutMs: limits.sanitiserTimeoutMs,
      signal: request.signal,
    })
    return answer.text
  }

  async function question(request: SanitiseRequest): Promise<Sanitised> {
    const { result, purpose } = request
    const questions: Question[] = []
    while (questions.length < roundsMax) {
      const next = readQuestion(await ask(request, MAIN, mainSystem, questionRequest(purpose, questions, roundsMax)))
      if (next === undefined) break
      const chosen = await ask(request, QUARANTINE, quarantineSystem, quarantinedQuestion(result, next))
      questions.push({ ...next, chosen: readChoice(chosen, next.options.length) })
    }
    const summary = await ask(request, MAIN, summarySystem, summaryRequest(purpose, questions))
    const text = summary.trim().slice(0, limits.sanitisedCharsMax).toWellFormed()
    if (text === '')
      throw new AppError('ERR_MODEL_FAILED', 'The result could not be summarised: the model gave no answer.')
    return { text, rounds: questions.length, isCached: false }
  }

  return {
    async sanitise(request) {
      const key = sha256Hex(JSON.stringify([request.decision, request.purpose, sha256Hex(request.result)]))
      const before = known.get(key)
      if (before !== undefined) return { ...before, isCached: true }
      const made = await question(request)
      if (known.size >= limits.sanitisedCachedMax) known.delete(known.keys().next().value!)
      known.set(key, made)
      return made
    },
    requireModels() {
      chosenAlias(models, MAIN)
      chosenAlias(models, QUARANTINE)
    },
  }
}
