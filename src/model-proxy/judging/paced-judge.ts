import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { nextTurn } from '../../kernel/time-slicer.ts'
import type { CallJudge } from './ports.ts'

/** So many are judged in one turn. Others are served in between. */
const IN_ONE_TURN = 20

/** Undefined nearly always. Await it between two steps of a long list. */
export function createPace(): () => Promise<void> | undefined {
  let steps = 0
  return () => (++steps % IN_ONE_TURN === 0 ? nextTurn() : undefined)
}

/** The judge of one answer, which may have only so many calls. */
export function pacedJudge(judge: CallJudge): CallJudge {
  const pace = createPace()
  let calls = 0
  return {
    ...judge,
    refusalOf(call) {
      if (++calls > limits.modelAnswerCallsMax) throw tooManyParts()
      const turn = pace()
      return turn === undefined ? judge.refusalOf(call) : turn.then(() => judge.refusalOf(call))
    },
  }
}

export const tooManyParts = (): AppError =>
  new AppError(
    'ERR_TOO_LARGE',
    `The answer of the provider has too many parts to be judged: more than ${limits.modelAnswerCallsMax} tool calls, ${limits.modelAnswerMembersMax} members or ${limits.modelAnswerDepthMax} levels. Ask for fewer calls at once.`,
    { calls_max: limits.modelAnswerCallsMax },
  )
