import { runCastellanHere } from './castellan-here.ts'
import type { RealServer } from './real-server.ts'

export type Row = Record<string, unknown>

/** A command of the program on the state of a server, whose answer is read. */
export async function castellanJson(server: Pick<RealServer, 'dataDir'>, args: readonly string[]): Promise<Row> {
  const run = await runCastellanHere([...args, '--json', '--data-dir', server.dataDir], { home: server.dataDir })
  if (run.code !== 0) throw new Error(`castellan ${args.join(' ')}: ${run.stderr}`)
  return JSON.parse(run.stdout) as Row
}

export const PASSWORD = 'correct horse battery staple'

/** A user with a password, who has not signed in yet. */
export async function newPerson(
  server: Pick<RealServer, 'url' | 'dataDir'>,
  email: string,
  flags: readonly string[] = [],
) {
  const { link } = await castellanJson(server, ['users', 'create', email, ...flags])
  const url = new URL(new URL(String(link)).pathname, server.url)
  const accepted = await postForm(url, { password: PASSWORD, again: PASSWORD })
  if (!accepted.ok) throw new Error(`the link of ${email} was answered with ${accepted.status}`)
  return { email, password: PASSWORD }
}

/** What a form of one of our pages sends. */
export const postForm = (url: URL, fields: Record<string, string>, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: 'POST',
    redirect: 'manual',
    headers: { origin: url.origin, ...headers },
    body: new URLSearchParams(fields),
  })

/** The cookie of a new session. */
export async function signIn(
  server: Pick<RealServer, 'url'>,
  person: Readonly<{ email: string; password: string }>,
): Promise<string> {
  const response = await postForm(new URL('/sign-in', server.url), person)
  if (response.status !== 303) throw new Error(`signing in was answered with ${response.status}`)
  return response.headers.getSetCookie()[0]!.split(';')[0]!
}
