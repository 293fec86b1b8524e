import type { Migration } from './migrations.ts'

/**
 * People. The tables of accounts, sessions and authorisations have the columns of better-auth's own migrations, under our names;
 * `test/people/auth-tables.test.ts` compares. Their times are ISO 8601 text and their booleans 0 and 1, the same in both
 * databases.
 */
export const peopleMigrations: readonly Migration[] = [
  {
    name: 'people',
    statements: [
      `CREATE TABLE users (
        id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
        email_verified $integer NOT NULL, image TEXT, role TEXT NOT NULL, tier TEXT NOT NULL, created_by TEXT NOT NULL,
        created_at TEXT NOT NULL, updated_at TEXT NOT NULL)`,
      'CREATE INDEX users_by_tenant ON users (tenant, email)',
      `CREATE TABLE user_sessions (
        id TEXT PRIMARY KEY, expires_at TEXT NOT NULL, token TEXT NOT NULL UNIQUE, created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL, ip_address TEXT, user_agent TEXT,
        user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE)`,
      'CREATE INDEX user_sessions_by_user ON user_sessions (user_id)',
      `CREATE TABLE user_accounts (
        id TEXT PRIMARY KEY, "accountId" TEXT NOT NULL, "providerId" TEXT NOT NULL,
        "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "accessToken" TEXT, "refreshToken" TEXT,
        "idToken" TEXT, "accessTokenExpiresAt" TEXT, "refreshTokenExpiresAt" TEXT, scope TEXT, password TEXT,
        "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL)`,
      'CREATE INDEX user_accounts_by_user ON user_accounts ("userId")',
      `CREATE TABLE user_verifications (
        id TEXT PRIMARY KEY, identifier TEXT NOT NULL, value TEXT NOT NULL, "expiresAt" TEXT NOT NULL,
        "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL)`,
      'CREATE INDEX user_verifications_by_identifier ON user_verifications (identifier)',
      `CREATE TABLE user_teams (
        tenant TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, description TEXT NOT NULL, created_at $integer NOT NULL,
        created_by TEXT NOT NULL, PRIMARY KEY (tenant, id), UNIQUE (tenant, name))`,
      `CREATE TABLE user_team_members (
        tenant TEXT NOT NULL, team_id TEXT NOT NULL, user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
        PRIMARY KEY (tenant, team_id, user_id),
        FOREIGN KEY (tenant, team_id) REFERENCES user_teams (tenant, id) ON DELETE CASCADE)`,
      'CREATE INDEX user_team_members_by_user ON user_team_members (user_id)',
      `CREATE TABLE invitations (
        tenant TEXT NOT NULL, id TEXT NOT NULL, token_hash TEXT NOT NULL UNIQUE, email TEXT NOT NULL, role TEXT NOT NULL,
        tier TEXT NOT NULL, teams TEXT NOT NULL, user_id TEXT REFERENCES users (id) ON DELETE CASCADE,
        created_at $integer NOT NULL, created_by TEXT NOT NULL, expires_at $integer NOT NULL, accepted_at $integer,
        cancelled_at $integer, PRIMARY KEY (tenant, id))`,
      `CREATE TABLE sign_in_attempts (
        row_id $identity, at $integer NOT NULL, email TEXT NOT NULL, address TEXT NOT NULL, outcome TEXT NOT NULL,
        tenant TEXT, user_id TEXT)`,
      'CREATE INDEX sign_in_attempts_by_email ON sign_in_attempts (email, at)',
      'CREATE INDEX sign_in_attempts_by_address ON sign_in_attempts (address, at)',
    ],
  },
  {
    name: 'OAuth clients and their tokens',
    statements: [
      `CREATE TABLE oauth_clients (
        id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL UNIQUE, "clientSecret" TEXT, "clientDiscoveryId" TEXT,
        disabled $integer, "skipConsent" $integer, "enableEndSession" $integer, "subjectType" TEXT, scopes TEXT,
        "clientCredentialsScopes" TEXT, "userId" TEXT REFERENCES users (id) ON DELETE CASCADE, "createdAt" TEXT,
        "updatedAt" TEXT, name TEXT, uri TEXT, icon TEXT, contacts TEXT, tos TEXT, policy TEXT, "softwareId" TEXT,
        "softwareVersion" TEXT, "softwareStatement" TEXT, "redirectUris" TEXT NOT NULL, "postLogoutRedirectUris" TEXT,
        "backchannelLogoutUri" TEXT, "backchannelLogoutSessionRequired" $integer, "tokenEndpointAuthMethod" TEXT,
        "applicationType" TEXT, jwks TEXT, "jwksUri" TEXT, "grantTypes" TEXT, "responseTypes" TEXT, "requirePKCE" $integer,
        "dpopBoundAccessTokens" $integer, "referenceId" TEXT, metadata TEXT)`,
      'CREATE INDEX oauth_clients_by_user ON oauth_clients ("userId")',
      `CREATE TABLE oauth_resources (
        id TEXT PRIMARY KEY, identifier TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "accessTokenTtl" $integer,
        "refreshTokenTtl" $integer, "signingAlgorithm" TEXT, "signingKeyId" TEXT, "allowedScopes" TEXT, "customClaims" TEXT,
        "dpopBoundAccessTokensRequired" $integer, disabled $integer, "createdAt" TEXT, "updatedAt" TEXT,
        "policyVersion" $integer, metadata TEXT)`,
      `CREATE TABLE oauth_client_resources (
        id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
        "resourceId" TEXT NOT NULL REFERENCES oauth_resources (identifier) ON DELETE CASCADE, metadata TEXT, "createdAt" TEXT,
        UNIQUE ("clientId", "resourceId"))`,
      `CREATE TABLE oauth_refresh_tokens (
        id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE,
        "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
        "sessionId" TEXT REFERENCES user_sessions (id) ON DELETE SET NULL,
        "userId" TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE, "referenceId" TEXT, "authorizationCodeId" TEXT,
        resources TEXT, "requestedUserInfoClaims" TEXT, "expiresAt" TEXT NOT NULL, "createdAt" TEXT NOT NULL, revoked TEXT,
        "rotatedAt" TEXT, "rotationReplayResponse" TEXT, "rotationReplayExpiresAt" TEXT, "authTime" TEXT, confirmation TEXT,
        scopes TEXT NOT NULL)`,
      'CREATE INDEX oauth_refresh_tokens_by_user ON oauth_refresh_tokens ("userId", "clientId")',
      'CREATE INDEX oauth_refresh_tokens_by_code ON oauth_refresh_tokens ("authorizationCodeId")',
      `CREATE TABLE oauth_access_tokens (
        id TEXT PRIMARY KEY, token TEXT NOT NULL UNIQUE,
        "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
        "sessionId" TEXT REFERENCES user_sessions (id) ON DELETE SET NULL, "userId" TEXT REFERENCES users (id) ON DELETE CASCADE,
        "referenceId" TEXT, "authorizationCodeId" TEXT, resources TEXT, "requestedUserInfoClaims" TEXT,
        "refreshId" TEXT REFERENCES oauth_refresh_tokens (id) ON DELETE CASCADE, "expiresAt" TEXT NOT NULL,
        "createdAt" TEXT NOT NULL, revoked TEXT, confirmation TEXT, scopes TEXT NOT NULL)`,
      'CREATE INDEX oauth_access_tokens_by_user ON oauth_access_tokens ("userId", "clientId")',
      'CREATE INDEX oauth_access_tokens_by_refresh ON oauth_access_tokens ("refreshId")',
      'CREATE INDEX oauth_access_tokens_by_code ON oauth_access_tokens ("authorizationCodeId")',
      `CREATE TABLE oauth_consents (
        id TEXT PRIMARY KEY, "clientId" TEXT NOT NULL REFERENCES oauth_clients ("clientId") ON DELETE CASCADE,
        "userId" TEXT REFERENCES users (id) ON DELETE CASCADE, "referenceId" TEXT, resources TEXT,
        "requestedUserInfoClaims" TEXT, scopes TEXT NOT NULL, "createdAt" TEXT NOT NULL, "updatedAt" TEXT NOT NULL)`,
      'CREATE INDEX oauth_consents_by_user ON oauth_consents ("userId", "clientId")',
      'CREATE TABLE oauth_client_assertions (id TEXT PRIMARY KEY, "expiresAt" TEXT NOT NULL)',
    ],
  },
]
