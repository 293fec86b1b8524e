import type { Command } from './context.ts'

/** The commands of the program; each is loaded only when it runs. */
export const commands: Readonly<Record<string, Readonly<{ summary: string; load(): Promise<{ command: Command }> }>>> =
  {
    serve: { summary: 'Start the server: MCP over HTTP, REST and health.', load: () => import('./serve.ts') },
    mcp: { summary: 'Serve one client over standard input and output.', load: () => import('./mcp.ts') },
    tools: { summary: 'List the tools, or show one.', load: () => import('./tools.ts') },
    call: { summary: 'Call a tool and print its answer.', load: () => import('./call.ts') },
    import: {
      summary: "Import the MCP servers of a client's configuration or of a server.json.",
      load: () => import('./import.ts'),
    },
    export: { summary: 'Write the log to a file that anyone can verify.', load: () => import('./export.ts') },
    verify: { summary: 'Verify an export, a proof, or the state itself.', load: () => import('./verify.ts') },
    keys: { summary: 'Manage API keys.', load: () => import('./keys.ts') },
    users: { summary: 'Manage the people who can sign in.', load: () => import('./users.ts') },
    teams: { summary: 'Manage teams of people.', load: () => import('./teams.ts') },
    roles: { summary: 'Manage custom roles.', load: () => import('./roles.ts') },
    invite: { summary: 'Invite people with a one-time link.', load: () => import('./invite.ts') },
    clients: {
      summary: 'Manage OAuth clients of programs that act for themselves.',
      load: () => import('./clients.ts'),
    },
    approvals: {
      summary: 'List requests that wait for your approval, and answer them.',
      load: () => import('./approvals.ts'),
    },
    secrets: {
      summary: 'List the secrets, or rotate the key that encrypts them.',
      load: () => import('./secrets.ts'),
    },
    login: { summary: 'Sign in to a server elsewhere.', load: () => import('./login.ts') },
    logout: { summary: 'End a sign-in to a server elsewhere.', load: () => import('./logout.ts') },
    image: {
      summary: 'Build, list and remove the images that workspaces start from.',
      load: () => import('./image.ts'),
    },
    config: { summary: 'Show or check the configuration.', load: () => import('./config.ts') },
    doctor: { summary: 'Check this machine and the data directory.', load: () => import('./doctor.ts') },
    completion: {
      summary: 'Print a script that lets a shell complete commands, tools and their fields.',
      load: () => import('./completion.ts'),
    },
    version: { summary: 'Print the version.', load: () => import('./version.ts') },
  }
