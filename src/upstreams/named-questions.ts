import type { ClientQuestion, ClientQuestions } from '../contract/calling-client.ts'

/** In `_meta` of a question, for clients that show it in their own way. */
const SERVER_META_KEY = 'castellan/server'

/**
 * The questions of a server, preceded by its name, so that a person can tell who asks. The name is the prefix of the server's
 * tools and contains only a–z, 0–9 and `_`. The server's text begins on a new line, so it cannot change how ours is displayed.
 */
export const namedQuestions = (server: string, questions: ClientQuestions): ClientQuestions =>
  Object.fromEntries(Object.entries(questions).map(([key, question]) => [key, named(server, question)]))

function named(server: string, { method, params }: ClientQuestion): ClientQuestion {
  const _meta = { [SERVER_META_KEY]: server }
  const after = (introduction: string, text: unknown): string =>
    typeof text === 'string' && text !== '' ? `${introduction}\n${text}` : introduction
  switch (method) {
    case 'elicitation/create':
      return {
        method,
        params: { ...params, message: after(`The MCP server ${server} asks:`, params['message']), _meta },
      }
    case 'sampling/createMessage': {
      const introduction = `This request comes from the MCP server ${server}.`
      return { method, params: { ...params, systemPrompt: after(introduction, params['systemPrompt']), _meta } }
    }
    case 'roots/list':
      return { method, params: { ...params, _meta } }
  }
}
