import { AppError } from '../contract/app-error.ts'
import type { Json } from '../kernel/canonical-json.ts'
import type { Withhold } from '../kernel/withhold.ts'
import type { Ending, NewEvent, Program, ProgramEnd, Run, Steps } from './ports.ts'

/**
 * A program whose record never has certain texts. They are taken out before anything is recorded, and the program itself
 * sees only what is recorded, so that a replay takes the same way.
 */
export function withholding(
  { program, ending }: Readonly<{ program: Program; ending: Ending }>,
  withholdFor: (run: Run) => Withhold | undefined,
): Readonly<{ program: Program; ending: Ending }> {
  return {
    async program(run, steps) {
      const withhold = withholdFor(run)
      if (withhold === undefined) return await program(run, steps)
      const end = await cleaned(withhold, () => program(run, stepsWithout(withhold, steps)))
      return withhold.value(end as unknown as Json) as unknown as ProgramEnd
    },
    async ending(run, steps, status) {
      const withhold = withholdFor(run)
      if (withhold === undefined) return await ending(run, steps, status)
      await cleaned(withhold, () => ending(run, stepsWithout(withhold, steps), status))
    },
  }
}

function stepsWithout(withhold: Withhold, steps: Steps): Steps {
  const clean = <T>(value: T): T => withhold.value(value as Json) as T
  const event = (given: NewEvent): NewEvent => ({
    ...given,
    ...(given.payload !== undefined && { payload: clean(given.payload) }),
  })
  return {
    ...steps,
    once: (key, work, options) =>
      steps.once(
        key,
        async (attempt) => {
          const { result, events, type } = await cleaned(withhold, () => work(attempt))
          return { result: clean(result), ...(events && { events: events.map(event) }), ...(type && { type }) }
        },
        { ...options, ...(options?.began && { began: event(options.began) }) },
      ),
    note: (...events) => steps.note(...events.map(event)),
    wait: (key, options) => steps.wait(key, { ...options, details: clean(options.details) }),
    child: (key, start) => steps.child(key, { ...start, input: clean(start.input) }),
  }
}

/** What is thrown is recorded or logged as well. */
async function cleaned<T>(withhold: Withhold, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AppError) {
      const details = withhold.value(error.details as Json) as AppError['details']
      throw new AppError(error.code, withhold.text(error.message), details, { cause: error.cause })
    }
    if (error instanceof Error) {
      error.message = withhold.text(error.message)
      error.stack = withhold.text(error.stack ?? '')
    }
    throw error
  }
}
