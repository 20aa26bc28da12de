//! Reading a gate: words and operators, `and` binding closer than `or`.

use std::fmt;
use std::str::FromStr;

use super::factor::Factor;
use super::figure::Figure;
use super::{Alternative, Comparison, Conditions, Gate, GateError, Key, Operator, Selector};
use crate::quantity;

impl FromStr for Gate {
    type Err = GateError;

    /// `FIGURE OP VALUE [and|or …]`, `and` binding closer. Also `transport`, `strategy`, `driver` and
    /// `payload` to choose rows.
    fn from_str(text: &str) -> Result<Self, GateError> {
        let parser = Parser {
            tokens: tokens(text)?,
            at: 0,
        };
        let conditions = if parser.has_factor() {
            Conditions::Factors(parser.alternatives(Factor::read, |_| Ok(()))?)
        } else {
            Conditions::Figures(parser.alternatives(comparison, of_one_table)?)
        };
        Ok(Self {
            text: text.trim().to_owned(),
            conditions,
        })
    }
}

/// A comparison from the name of a figure, an operator and a value.
type Read<C> = fn(&str, Operator, &str) -> Result<C, GateError>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Operator(Operator),
}

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    /// Whether a bound is a factor, which makes the gate one on two runs.
    fn has_factor(&self) -> bool {
        let words = self.tokens.iter().filter_map(|token| match token {
            Token::Word(word) => word.strip_suffix('x'),
            Token::Operator(_) => None,
        });
        let mut words = words;
        // An x that stands apart belongs to the number before it.
        words.any(|digits| digits.bytes().all(|b| b.is_ascii_digit() || b == b'.'))
    }

    /// All of the text.
    fn alternatives<C>(
        mut self,
        read: Read<C>,
        check: fn(&Alternative<C>) -> Result<(), GateError>,
    ) -> Result<Vec<Alternative<C>>, GateError> {
        let mut alternatives = Vec::new();
        loop {
            let alternative = self.alternative(read)?;
            check(&alternative)?;
            alternatives.push(alternative);
            if !self.take_word("or") {
                break;
            }
        }
        match self.next() {
            None => Ok(alternatives),
            Some(token) => Err(GateError(format!(
                "expected 'and' or 'or' before '{token}'"
            ))),
        }
    }

    fn alternative<C>(&mut self, read: Read<C>) -> Result<Alternative<C>, GateError> {
        let mut alternative = Alternative {
            selectors: Vec::new(),
            comparisons: Vec::new(),
        };
        loop {
            self.condition(&mut alternative, read)?;
            if !self.take_word("and") {
                break;
            }
        }
        if alternative.comparisons.is_empty() {
            return Err(GateError(
                "it chooses rows and compares no figure of them".to_owned(),
            ));
        }
        Ok(alternative)
    }

    fn condition<C>(
        &mut self,
        alternative: &mut Alternative<C>,
        read: Read<C>,
    ) -> Result<(), GateError> {
        let name = self.word("a figure")?;
        let operator = match self.next() {
            Some(Token::Operator(operator)) => operator,
            other => {
                let found =
                    other.map_or_else(|| "its end".to_owned(), |token| format!("'{token}'"));
                return Err(GateError(format!(
                    "expected > >= < <= == or != after '{name}', found {found}"
                )));
            }
        };
        let value = self.value()?;
        let key = match name.as_str() {
            "transport" => Key::Transport,
            "strategy" => Key::Strategy,
            "driver" => Key::Driver,
            "load" => Key::Load,
            "payload" => {
                let bytes = quantity::size(&value)
                    .map_err(|error| GateError(format!("payload {operator} {value}: {error}")))?;
                alternative
                    .selectors
                    .push(Selector::Payload { operator, bytes });
                return Ok(());
            }
            _ => {
                let comparison = read(&name, operator, &value)?;
                alternative.comparisons.push(comparison);
                return Ok(());
            }
        };
        let equal = match operator {
            Operator::Equal => true,
            Operator::Unequal => false,
            _ => return Err(GateError(format!("{name} takes == and != only"))),
        };
        alternative
            .selectors
            .push(Selector::Word { key, equal, value });
        Ok(())
    }

    /// The value, joined with a unit that stands apart: `200 us`.
    fn value(&mut self) -> Result<String, GateError> {
        let mut value = self.word("a value")?;
        let bare = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if bare
            && let Some(Token::Word(unit)) = self.tokens.get(self.at)
            && unit != "and"
            && unit != "or"
        {
            value.push_str(unit);
            self.at += 1;
        }
        Ok(value)
    }

    fn word(&mut self, expected: &str) -> Result<String, GateError> {
        match self.next() {
            Some(Token::Word(word)) => Ok(word),
            Some(token) => Err(GateError(format!("expected {expected}, found '{token}'"))),
            None => Err(GateError(format!("expected {expected}, found its end"))),
        }
    }

    fn take_word(&mut self, word: &str) -> bool {
        let there = matches!(self.tokens.get(self.at), Some(Token::Word(found)) if found == word);
        self.at += usize::from(there);
        there
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }
}

fn of_one_table(alternative: &Alternative<Comparison>) -> Result<(), GateError> {
    match alternative.tables().names().is_empty() {
        false => Ok(()),
        true => Err(GateError(format!(
            "'{}': no row has all of it, 'and' joins figures of one table",
            alternative.text()
        ))),
    }
}

fn comparison(name: &str, operator: Operator, value: &str) -> Result<Comparison, GateError> {
    let figure = Figure::named(name).ok_or_else(|| {
        GateError(format!(
            "'{name}' is no figure; there are {}",
            Figure::names().join(", ")
        ))
    })?;
    let text = format!("{name} {operator} {value}");
    let bound = figure
        .unit
        .read(value)
        .map_err(|why| GateError(format!("'{text}': {why}")))?;
    Ok(Comparison {
        text,
        figure,
        operator,
        bound,
    })
}

fn tokens(text: &str) -> Result<Vec<Token>, GateError> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if is_operator(first) {
            let length = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
            tokens.push(Token::Operator(operator(&rest[..length])?));
            length
        } else {
            let end = |c: char| c.is_whitespace() || is_operator(c);
            let length = rest.find(end).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..length].to_owned()));
            length
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn is_operator(c: char) -> bool {
    matches!(c, '<' | '>' | '=' | '!')
}

fn operator(text: &str) -> Result<Operator, GateError> {
    Ok(match text {
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        "=" | "==" => Operator::Equal,
        "!=" => Operator::Unequal,
        _ => return Err(GateError(format!("'{text}' is none of > >= < <= == !="))),
    })
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Operator(operator) => operator.fmt(f),
        }
    }
}
