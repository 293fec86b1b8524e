import type { ErrorDetails } from './app-error.ts'

type Failure<Code> = Readonly<{ code: Code; message: string; details: ErrorDetails }>

/** How every protocol of ours but SEAL says that a call failed; what else an error carries stays inside. */
export const errorEnvelope = <Code extends string>({ code, message, details }: Failure<Code>) => ({
  error: { code, message, details },
})
