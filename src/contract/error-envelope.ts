import type { ErrorDetails } from './app-error.ts'

type Failure<Code> = Readonly<{ code: Code; message: string; details: ErrorDetails }>

/** The error format of all protocols except SEAL. Nothing else of an error is exposed. */
export const errorEnvelope = <Code extends string>({ code, message, details }: Failure<Code>) => ({
  error: { code, message, details },
})
