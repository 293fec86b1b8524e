type WelcomeFacts = Readonly<{ origin: string; version: string; needsKey: boolean; hasPeople: boolean }>

const PEOPLE_ADDRESSES = `  GET  /sign-in            for people: sign in in a browser; MCP clients that support OAuth open it themselves
  GET  /account            for people: your account, its passkeys, and signing out
`
const KEY_HEADER = 'Authorization: Bearer cst_…'

/** The page for a browser or curl. `origin` is safe to print: it was parsed. */
export function welcomeText({ origin, version, needsKey, hasPeople }: WelcomeFacts): string {
  const forClient = needsKey ? ` --header "${KEY_HEADER}"` : ''
  const forCurl = needsKey ? ` -H '${KEY_HEADER}'` : ''
  return `Castellan ${version}: one server for people who run AI agents.

Connect an MCP client (Streamable HTTP):
  ${origin}/mcp
  ${origin}/mcp?tools=full        every tool in the list; the default is a small set with search_tools and run_tool
  ${origin}/mcp?names=safe        tool names without dots, for clients whose models refuse dots
  claude mcp add --transport http castellan ${origin}/mcp${forClient}

Call a tool without MCP:
  curl -X POST ${origin}/v1/tools/server_ping${forCurl} -H 'content-type: application/json' -d '{}'

Addresses:
  GET  /health             whether the server is healthy; /health/live and /health/ready are for probes
  GET  /v1/tools           the tools you may use
  POST /v1/tools/{name}    call one; the body is its arguments
  POST /v1/agents/{id}/execute, GET /v1/executions/{id}/events, and more of agents, executions and workflows
  /mcp/{gateway}           the tools of one gateway, for MCP clients
  /v1/{provider}           models of a provider, for its SDK; {provider} is openai, anthropic, gemini or a name of the configuration
  POST /v1/seal/attest     begin a session for signed calls; POST /v1/seal/invoke makes them
  GET  /openapi.json       all of this as OpenAPI 3.1
${hasPeople ? PEOPLE_ADDRESSES : ''}
${
  needsKey
    ? `This port requires an API key: send it with every request to /mcp and /v1 as
"${KEY_HEADER}"; castellan keys create makes one.`
    : `From this machine no key is needed. From elsewhere, send an API key as
"${KEY_HEADER}"; castellan keys create makes one.`
}
`
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }
const escapeHtml = (text: string): string => text.replace(/[&<>"]/g, (char) => entities[char]!)

export function welcomeHtml(facts: WelcomeFacts): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Castellan</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}pre{white-space:pre-wrap;overflow-wrap:anywhere}</style>
</head><body><h1>Castellan</h1><pre>${escapeHtml(welcomeText(facts))}</pre>
<p>${facts.hasPeople ? '<a href="/sign-in">Sign in</a> · <a href="/account">Your account</a> · ' : ''}<a href="/openapi.json">OpenAPI document</a> · <a href="/health">Health</a></p></body></html>
`
}

export const WELCOME_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
