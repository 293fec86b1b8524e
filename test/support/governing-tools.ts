import { permissionsOf } from '../../src/tools/runtime/call-rules.ts'
import type { CallRules } from '../../src/tools/runtime/define-tool.ts'

/** Resources that decide what callers may do, with which credential, or what is spent. Who changes one governs. */
export const governingResources: readonly string[] = [
  ...['ac', 'apiKey', 'approval', 'auditLog', 'identityProvider', 'invitation', 'llmLimit', 'llmOauthClient'],
  ...['llmProviderApiKey', 'llmProxy', 'llmSettings', 'llmVirtualKey', 'mcpOauthClient', 'member'],
  ...['optimizationRule', 'organizationSettings', 'agentSettings', 'knowledgeSettings', 'seal', 'secret'],
  ...['serviceAccount', 'system', 'toolPolicy', 'userTeam', 'llmModel', 'environment', 'githubAppConfig'],
]

/** Resources that people and agents work with. A call about one is judged as what it does; calls through a gateway, and of an agent, one by one. */
export const workingResources: readonly string[] = [
  ...['agent', 'agentTrigger', 'app', 'chat', 'chatAgentPicker', 'chatExpandToolCalls', 'chatProviderSettings'],
  ...[
    'execution',
    'knowledgeFile',
    'knowledgeSource',
    'llmCost',
    'log',
    'mcpGateway',
    'mcpRegistry',
    'mcpServerInstallation',
  ],
  ...['mcpServerInstallationRequest', 'project', 'sandbox', 'scheduledTask', 'server', 'simpleView', 'skill'],
  ...['siteNotification', 'task', 'team', 'trail', 'vault', 'web', 'workflow', 'workspace'],
]

/** Permissions of a working resource that decide for others. */
const governingPermissions: readonly string[] = ['mcpServerInstallationRequest:admin']

const takesAway = 'it only takes a right or a credential away, which must be possible from anywhere'
const asksForPerson = 'its service lets only a person do it, and nobody in an untrusted context'

/** Tools that change a governing resource and may still be called in an untrusted context, with the reason. */
export const notGoverning: Readonly<Record<string, string>> = {
  api_key_revoke: takesAway,
  delete_llm_proxy: takesAway,
  invitation_cancel: takesAway,
  oauth_client_delete: takesAway,
  role_delete: takesAway,
  seal_session_revoke: takesAway,
  secret_delete: takesAway,
  user_delete: takesAway,
  user_session_revoke: takesAway,
  virtual_key_revoke: takesAway,
  approval_answer: asksForPerson,
  context_trust_clear: asksForPerson,
  seal_session_create: 'its session has the rights and the trust of the credential that it is made with',
  secret_link_create: 'it asks a person for a value, at a page that no program sees',
  secret_rotate: 'it encrypts the same secrets with another key',
}

export const isGoverning = (rules: CallRules): boolean =>
  rules.effect !== 'read' &&
  permissionsOf(rules).some(
    (permission) =>
      governingPermissions.includes(permission) || governingResources.includes(permission.split(':')[0] ?? ''),
  )
