--
-- PostgreSQL database dump
--

\restrict GIl4Q3n6aeEvGxvlBca8A3M8Oc4L3aT7UbvxL5bDimMXAabMowqae8aHZCsxuvz

-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: store; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.store (
    prefix text NOT NULL,
    key text NOT NULL,
    value jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    updated_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP,
    expires_at timestamp with time zone,
    ttl_minutes integer
);


ALTER TABLE public.store OWNER TO postgres;

--
-- Name: store_migrations; Type: TABLE; Schema: public; Owner: postgres
--

CREATE TABLE public.store_migrations (
    v integer NOT NULL
);


ALTER TABLE public.store_migrations OWNER TO postgres;

--
-- Data for Name: store; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.store (prefix, key, value, created_at, updated_at, expires_at, ttl_minutes) FROM stdin;
users.alice.memories	m1	{"kind": "health", "text": "Is allergic to peanuts"}	2026-11-16 14:21:04.15814+00	2026-11-16 14:21:04.15814+00	\N	\N
users.alice.memories	m2	{"text": "Line one\\nLine two with a tab\\there and a back\\\\slash"}	2026-11-16 14:21:04.165171+00	2026-11-16 14:21:04.165171+00	\N	\N
users.bob.profile	profile	{"name": "Bob", "languages": ["de", "en"]}	2026-11-16 14:21:04.169997+00	2026-11-16 14:21:04.169997+00	\N	\N
app	settings	{"theme": "dark"}	2026-11-16 14:21:04.17392+00	2026-11-16 14:21:04.17392+00	\N	\N
\.


--
-- Data for Name: store_migrations; Type: TABLE DATA; Schema: public; Owner: postgres
--

COPY public.store_migrations (v) FROM stdin;
0
1
2
3
\.


--
-- Name: store_migrations store_migrations_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.store_migrations
    ADD CONSTRAINT store_migrations_pkey PRIMARY KEY (v);


--
-- Name: store store_pkey; Type: CONSTRAINT; Schema: public; Owner: postgres
--

ALTER TABLE ONLY public.store
    ADD CONSTRAINT store_pkey PRIMARY KEY (prefix, key);


--
-- Name: idx_store_expires_at; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX idx_store_expires_at ON public.store USING btree (expires_at) WHERE (expires_at IS NOT NULL);


--
-- Name: store_prefix_idx; Type: INDEX; Schema: public; Owner: postgres
--

CREATE INDEX store_prefix_idx ON public.store USING btree (prefix text_pattern_ops);


--
-- PostgreSQL database dump complete
--

\unrestrict GIl4Q3n6aeEvGxvlBca8A3M8Oc4L3aT7UbvxL5bDimMXAabMowqae8aHZCsxuvz

