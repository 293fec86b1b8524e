import type { Generated } from 'kysely'

/** Tables of people that our own statements use; better-auth builds its own. Times of accounts are ISO 8601 text. */
export type PeopleSchema = {
  users: UserTable
  user_sessions: UserSessionTable
  user_accounts: UserAccountTable
  user_passkeys: { id: string; userId: string; name: string | null; createdAt: string | null }
  user_verifications: { id: string; value: string }
  user_teams: UserTeamTable
  user_team_members: UserTeamMemberTable
  invitations: InvitationTable
  sign_in_attempts: SignInAttemptTable
  oauth_clients: OauthClientTable
  oauth_resources: OauthResourceTable
  oauth_access_tokens: OauthTokenTable
  oauth_refresh_tokens: OauthTokenTable
  oauth_consents: OauthConsentTable
  service_clients: ServiceClientTable
  device_authorizations: DeviceAuthorizationTable
}

export type UserTable = {
  id: string
  tenant: string
  name: string
  email: string
  email_verified: number
  image: string | null
  role: string
  tier: string
  created_by: string
  created_at: string
  updated_at: string
  /** How often the user lost a right, a team or a session. */
  sign_outs: Generated<number>
}

export type UserSessionTable = {
  id: string
  expires_at: string
  token: string
  created_at: string
  updated_at: string
  ip_address: string | null
  user_agent: string | null
  user_id: string
}

type UserAccountTable = {
  id: string
  accountId: string
  providerId: string
  userId: string
  password: string | null
  createdAt: string
  updatedAt: string
}

export type UserTeamTable = {
  tenant: string
  id: string
  name: string
  description: string
  created_at: number
  created_by: string
}

type UserTeamMemberTable = { tenant: string; team_id: string; user_id: string }

export type InvitationTable = {
  tenant: string
  id: string
  token_hash: string
  email: string
  role: string
  tier: string
  teams: string
  user_id: string | null
  created_at: number
  created_by: string
  expires_at: number
  accepted_at: number | null
  cancelled_at: number | null
}

export type SignInAttemptTable = {
  row_id: Generated<number>
  at: number
  email: string
  address: string
  outcome: string
  tenant: string | null
  user_id: string | null
  network: string | null
}

type OauthClientTable = {
  createdAt: string
  id: string
  clientId: string
  name: string | null
  uri: string | null
  redirectUris: string
}
type OauthResourceTable = {
  id: string
  identifier: string
  name: string
  disabled: number
  createdAt: string
  updatedAt: string
}
type OauthTokenTable = {
  id: string
  token: string
  clientId: string
  userId: string | null
  referenceId: string | null
  resources: string | null
  expiresAt: string
  createdAt: string
  revoked: string | null
  scopes: string
}
type OauthConsentTable = {
  id: string
  clientId: string
  userId: string | null
  resources: string | null
  scopes: string
  createdAt: string
  updatedAt: string
}
export type ServiceClientTable = {
  tenant: string
  id: string
  name: string
  secret_hash: string
  role: string
  tier: string
  gateways: string
  created_at: number
  created_by: string
}

export type DeviceAuthorizationTable = {
  id: string
  code_hash: string
  user_code: string
  client_id: string
  scopes: string
  resources: string
  address: string
  network: string
  created_at: number
  expires_at: number
  status: string
  user_id: string | null
  interval_ms: number
  polled_at: number | null
}
