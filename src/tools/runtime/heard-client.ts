import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { CallingClient, ClientNotification, ClientQuestions } from '../../contract/calling-client.ts'

/** The calling program, to which nothing of a server passes that was not heard before. */
export type HeardClient = CallingClient &
  Readonly<{
    /** Resolves when everything of the server has been passed on or hidden; undefined if nothing is waiting. */
    told(): Promise<void> | undefined
  }>

export function heardClient(client: CallingClient, hears: NonNullable<Call['hears']>): HeardClient {
  let telling: Promise<void> | undefined

  /** What cannot be recorded is not shown. */
  async function pass(notification: ClientNotification, before: Promise<void> | undefined): Promise<void> {
    const mayShow = await hears(JSON.stringify(notification.params)).catch(() => false)
    await before
    if (mayShow) client.tell(notification)
  }

  return {
    ...client,
    async ask(questions, signal) {
      // In the stateless revision a question ends the answer in which the client would be told the rest.
      const before = telling
      if (!(await hears(textOf(questions), true))) throw notDisplayed()
      await before
      return await client.ask(questions, signal)
    },
    tell(notification) {
      const { method, params } = notification
      // The client named the resource itself. Anything else in it would be words of the server.
      if (method === 'notifications/resources/updated') {
        client.tell({ method, params: { uri: params['uri'] } })
        return
      }
      const passed: Promise<void> = pass(notification, telling).finally(() => {
        if (telling === passed) telling = undefined
      })
      telling = passed
    },
    told: () => telling,
  }
}

/** The question for the roots of a client has no words of the server. */
function textOf(questions: ClientQuestions): string | undefined {
  const worded = Object.values(questions).filter(({ method }) => method !== 'roots/list')
  return worded.length === 0 ? undefined : JSON.stringify(worded.map(({ params }) => params))
}

const notDisplayed = (): AppError =>
  new AppError(
    'ERR_POLICY_DENIED',
    'A policy blocks what this server says, or what it asks after its call, so its question was not shown.',
  )
