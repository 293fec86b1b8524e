import { AppError } from '../contract/app-error.ts'
import type { Json } from '../kernel/canonical-json.ts'
import type { Redactor } from '../kernel/redactor.ts'
import type { Finalizer, NewEvent, Program, ProgramEnd, Run, Steps } from './ports.ts'

/**
 * A program whose record never contains certain texts. They are redacted before anything is recorded, and the program itself sees
 * only the recorded values, so that a replay takes the same path.
 */
export function redacting(
  { program, finalizer }: Readonly<{ program: Program; finalizer: Finalizer }>,
  redactorFor: (run: Run) => Redactor | undefined,
): Readonly<{ program: Program; finalizer: Finalizer }> {
  return {
    async program(run, steps) {
      const redactor = redactorFor(run)
      if (redactor === undefined) return await program(run, steps)
      const end = await cleaned(redactor, () => program(run, stepsWithout(redactor, steps)))
      return redactor.value(end as unknown as Json) as unknown as ProgramEnd
    },
    async finalizer(run, steps, status) {
      const redactor = redactorFor(run)
      if (redactor === undefined) return await finalizer(run, steps, status)
      await cleaned(redactor, () => finalizer(run, stepsWithout(redactor, steps), status))
    },
  }
}

function stepsWithout(redactor: Redactor, steps: Steps): Steps {
  const clean = <T>(value: T): T => redactor.value(value as Json) as T
  const event = (supplied: NewEvent): NewEvent => ({
    ...supplied,
    ...(supplied.payload !== undefined && { payload: clean(supplied.payload) }),
  })
  return {
    ...steps,
    once: (key, work, options) =>
      steps.once(
        key,
        async (attempt) => {
          const { result, events, type } = await cleaned(redactor, () => work(attempt))
          return { result: clean(result), ...(events && { events: events.map(event) }), ...(type && { type }) }
        },
        { ...options, ...(options?.began && { began: event(options.began) }) },
      ),
    note: (...events) => steps.note(...events.map(event)),
    wait: (key, options) => steps.wait(key, { ...options, details: clean(options.details) }),
    child: (key, start) => steps.child(key, { ...start, input: clean(start.input) }),
  }
}

/** Errors are recorded or logged too. */
async function cleaned<T>(redactor: Redactor, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AppError) {
      const details = redactor.value(error.details as Json) as AppError['details']
      throw new AppError(error.code, redactor.text(error.message), details, { cause: error.cause })
    }
    if (error instanceof Error) {
      error.message = redactor.text(error.message)
      error.stack = redactor.text(error.stack ?? '')
    }
    throw error
  }
}
